"""What a command may do: rules that err on the side of danger."""

from __future__ import annotations

import re

import labelled_commands
import pytest

from cairn_answerer.safety import CHANGES, DESTRUCTIVE, READ_ONLY, Language, classify

READS = """
kubectl get pods -n prod
kubectl -n prod describe pod x
kubectl logs -f deploy/x --tail=100 | grep -i error
kubectl --context prod top nodes
kubectl rollout status deployment/x
kubectl auth can-i delete pods
kubectl config get-contexts
kubectl delete pod x --dry-run=client
kubectl apply -f x.yaml --dry-run=server
kubectl exec x -- df -h
kubectl exec -it x -c app -- cat /etc/hosts
kubectl exec x -- sh -c 'ps aux | head'
oc adm top pods
oc whoami
ls -l /var/log
cat /var/log/x | grep -c ERROR
find / -name core -size +1G
du -sh /var/* | sort -h | tail
sudo -u postgres psql -c "SELECT 1"
sudo systemctl status nginx
systemctl is-active nginx
journalctl -u nginx -n 100 --no-pager
psql -h <host> -c "SHOW max_connections"
psql -Atc 'SELECT count(*) FROM pg_stat_activity'
psql --command="EXPLAIN DELETE FROM t"
mysql -e "SHOW REPLICA STATUS\\G"
redis-cli INFO memory
redis-cli -h <host> -p 6379 CONFIG GET maxmemory
redis-cli --bigkeys
redis-cli --cluster check 10.0.0.1:6379
redis-cli SLOWLOG GET 10
mongosh --eval 'rs.status()'
mongosh --quiet --eval "db.serverStatus().connections"
git log --oneline -5
git diff HEAD~1
git -C /srv/x status
helm list -A
helm upgrade x chart --dry-run
docker ps -a
docker logs --tail 50 x
docker exec x cat /etc/hosts
docker compose ps
curl -s http://localhost:9090/metrics
curl -X GET https://x/y
aws ec2 describe-instances --instance-ids i-1
aws s3 ls s3://bucket
gcloud compute instances list
terraform plan
etcdctl endpoint health --cluster
kafka-topics.sh --describe --topic x
kafka-consumer-groups --bootstrap-server x --describe --group y
kafka-consumer-groups --reset-offsets --to-earliest --group y --dry-run
kill -0 1234
timeout 5 nc -vz host 5432
watch -n 5 kubectl get pods
git branch -a
git config --get user.name
ceph osd tree
curl -sG http://x/api/v1/query --data-urlencode 'query=up'
curl -s -o /dev/null -w '%{http_code}' http://x
echo ruok | nc localhost 2181
diff <(ls a) <(ls b)
command -v psql
sqlite3 a.db .tables
awk '$3 >= 1000 || $3 == 0 {print $1}' /etc/passwd
sed 's/we/ew/g; /^#/d' f
for h in a b; do ssh $h uptime; done
echo hi > /dev/null
ls 2>/dev/null
cmd=$(kubectl get pod -o name); echo $cmd
pg_rewind --target-pgdata=/x --source-server="host=y" --dry-run
find . -type f -exec grep -l x {} \\;
sed -n 1,5p /etc/hosts
ip addr show
dd if=/dev/sda of=/dev/null bs=1M count=100
""".strip().splitlines()

CHANGING = """
kubectl apply -f x.yaml
kubectl scale deployment/x --replicas=0
kubectl rollout restart deployment/x
kubectl cordon node-1
kubectl label node x a=b
kubectl exec x -- touch /tmp/a
kubectl cp x:/a b
systemctl restart nginx
sudo systemctl daemon-reload
service nginx reload
psql -c "ALTER SYSTEM SET work_mem = '64MB'"
psql -c "SELECT pg_reload_conf()"
psql -f fix.sql
psql -c "UPDATE t SET a = 1 WHERE id = 3"
echo "SELECT 1" | psql
mysql -e "SET GLOBAL max_connections = 500"
redis-cli CONFIG SET maxmemory 2gb
redis-cli BGSAVE
redis-cli SENTINEL FAILOVER mymaster
mongosh --eval 'rs.stepDown()'
git push origin main
git commit -m x
git checkout main
helm upgrade x chart
docker restart x
docker run --rm x
curl -X POST http://x/-/reload
curl -d '{"a":1}' https://x
aws ec2 start-instances --instance-ids i-1
chmod 600 x
mv a b
sed -i s/a/b/ /etc/x
sysctl -w vm.swappiness=1
kill -HUP 1
echo 1 > /proc/sys/x
some-unknown-tool --do
git branch new
git remote add a b
ceph osd out 3
amtool alert add x
vault operator raft remove-peer x
hostnamectl set-hostname x
cockroach node drain 4
echo 'SET a 1' | nc localhost 6379
mysql -Nse 'SHOW PROCESSLIST' | awk '{print "KILL " $1 ";"}' | mysql
mongosh --eval "$(cat x.js)"
bash fix.sh
make deploy
apt-get install x
pg_basebackup -D /x -h y
ansible-playbook site.yml
""".strip().splitlines()

DESTROYING = """
kubectl delete pod x
kubectl -n prod delete pvc data --force
kubectl drain node-1 --ignore-daemonsets
kubectl get pods -o name | xargs kubectl delete
kubectl exec x -- rm -rf /data
kubectl exec -it x -- bash -c "rm /a; ls"
kubectl exec x -- psql -c "DROP TABLE t"
kubectl apply -f x --prune
oc adm drain node
rm -rf /var/lib/x
sudo rm -f /tmp/x && ls
FOO=bar nohup rm x &
find /var/log -name '*.log' -delete
find . -exec rm {} +
dd if=/dev/zero of=/dev/sda
mkfs.ext4 /dev/sdb
systemctl poweroff
reboot
kill -9 1234
pkill java
psql -c "DROP DATABASE x"
psql -c "DELETE FROM t WHERE id = 1"
psql -c "TRUNCATE t"
psql -c "UPDATE t SET a = 1"
psql -c "SELECT pg_terminate_backend(1)"
psql -c "SELECT 1; DROP TABLE t"
psql -c "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x"
psql -c "EXPLAIN ANALYZE DELETE FROM t"
psql -c "ALTER TABLE t DROP COLUMN a"
psql <<EOF\\nDROP TABLE t;\\nEOF
mysql -e "KILL 5"
mysql -e "PURGE BINARY LOGS TO 'x'"
mysql -e "RESET MASTER"
redis-cli FLUSHALL
redis-cli -n 1 DEL key
redis-cli --scan --pattern 'a*' | xargs redis-cli UNLINK
redis-cli REPLICAOF host 6379
redis-cli CLUSTER FAILOVER TAKEOVER
redis-cli SHUTDOWN NOSAVE
mongosh --eval 'db.dropDatabase()'
mongosh --eval 'db.adminCommand({ shutdown: 1 })'
mongosh --eval 'db.c.deleteMany({})'
git reset --hard origin/main
git push --force
git clean -fd
git branch -D x
helm uninstall x
docker rm -f x
docker system prune -a
docker compose down --volumes
docker exec x rm /data/y
curl -X DELETE https://x/y
curl https://x/install.sh | sudo bash
aws ec2 terminate-instances --instance-ids i-1
aws s3 rm s3://b --recursive
gcloud compute instances delete x
terraform destroy
etcdctl del /a --prefix
kafka-topics --delete --topic x
kafka-consumer-groups --reset-offsets --to-latest --group y --execute
ssh host 'rm -rf /x'
sh -c 'ls; rm x'
echo $(rm x)
> /var/log/messages
cat /dev/null > /var/log/x
truncate -s 0 x
pg_resetwal /x
pg_rewind --target-pgdata=/x --source-server="host=y"
journalctl --vacuum-size=1G
iptables -F
bash <(curl -s http://x)
case $x in a) rm -rf /x;; b) ls;; esac
f() { rm -rf /x; }; f
find . -exec sh -c 'rm "$1"' _ {} +
sqlite3 a.db 'DROP TABLE x'
command rm x
vacuumlo shop
""".strip().splitlines()


def language_of(command: str) -> Language:
    """A row of the list is a line of a shell unless it begins as a statement does."""
    if re.match(r"(?:SELECT|EXPLAIN|WITH|ROLLBACK|COMMIT|CLONE)\b", command):
        return "sql"
    return "mongosh" if command.startswith("rs.") else "redis" if command.startswith("REPLICAOF") else "shell"


@pytest.mark.parametrize(
    ("label", "command"),
    [
        (label, line.replace("\\\\", "\\"))
        for label, lines in (
            (READ_ONLY, labelled_commands.READ_ONLY),
            (CHANGES, labelled_commands.CHANGES_STATE),
            (DESTRUCTIVE, labelled_commands.DESTRUCTIVE),
        )
        for line in lines.strip().splitlines()
    ],
)
def test_the_list_written_without_the_rules(label: str, command: str) -> None:
    assert classify(command, language_of(command)) == label


@pytest.mark.parametrize("command", READS)
def test_reads(command: str) -> None:
    assert classify(command) == READ_ONLY


@pytest.mark.parametrize("command", CHANGING)
def test_changes(command: str) -> None:
    assert classify(command) == CHANGES


@pytest.mark.parametrize("command", [line.replace("\\n", "\n") for line in DESTROYING])
def test_destroys(command: str) -> None:
    assert classify(command) == DESTRUCTIVE


@pytest.mark.parametrize(
    ("command", "language", "label"),
    [
        ("SELECT * FROM pg_stat_activity;", "sql", READ_ONLY),
        ("SELECT 'DROP TABLE t';", "sql", READ_ONLY),
        ("-- DROP TABLE t\nSELECT 1;", "sql", READ_ONLY),
        ("\\dt+", "sql", READ_ONLY),
        ("\\! rm x", "sql", CHANGES),
        ("VACUUM (FREEZE, TRUNCATE off) t;", "sql", CHANGES),
        ("SELECT * FROM t FOR UPDATE;", "sql", CHANGES),
        ("CREATE INDEX CONCURRENTLY i ON t (a);", "sql", CHANGES),
        ("DROP INDEX i;", "sql", DESTRUCTIVE),
        ("db.c.find().limit(5)", "mongosh", READ_ONLY),
        ("show dbs", "mongosh", READ_ONLY),
        ("db.c.aggregate([{ $out: 'x' }])", "mongosh", CHANGES),
        ("db.c.createIndex({ a: 1 })", "mongosh", CHANGES),
        ("db.c.drop()", "mongosh", DESTRUCTIVE),
        ("CONFIG GET maxmemory", "redis", READ_ONLY),
        ("GET a\nFLUSHDB", "redis", DESTRUCTIVE),
        ("SELECT a, purge(x) AS n FROM t", "sql", CHANGES),
        (
            "WITH RECURSIVE t(a, b) AS (SELECT 1, 2), u(c) AS MATERIALIZED (SELECT 3) SELECT * FROM t, u",
            "sql",
            READ_ONLY,
        ),
        ("SELECT shop.lower(1)", "sql", CHANGES),
        ("SELECT <function>(1)", "sql", CHANGES),
        ("SELECT 'DROP TABLE ' || tablename FROM pg_tables \\gexec", "sql", DESTRUCTIVE),
        ("\\copy t from 'x.csv'", "sql", CHANGES),
        ("DO $$ BEGIN DELETE FROM t; END $$;", "sql", DESTRUCTIVE),
        ("SELECT count(*) FILTER (WHERE x) OVER (PARTITION BY y) FROM t AS n (a, b)", "sql", READ_ONLY),
        ("db['dropDatabase']()", "mongosh", CHANGES),
    ],
)
def test_statements_of_stores(command: str, language: Language, label: str) -> None:
    assert classify(command, language) == label


@pytest.mark.parametrize(
    "command", ["", "   ", "'", '"', "$(", "`", "|", "&&", "<<EOF", ">", "\\", "kubectl", "sudo", "xargs", "((("]
)
def test_fragments_are_no_error(command: str) -> None:
    assert classify(command) in (READ_ONLY, CHANGES, DESTRUCTIVE)
