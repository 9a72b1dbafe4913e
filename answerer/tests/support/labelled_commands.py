"""Commands as runbooks write them, with the label that is true of them.

Written from what the commands do, before the rules were read. Four rows moved afterwards, from "changes state" to
"destructive", because Cairn counts so whatever ends somebody's session, removes a large object, or runs a download.
"""

READ_ONLY = """
kubectl get pods -n payments -o wide
kubectl -n db exec pg-0 -- df -h /data
kubectl exec -it pg-0 -n db -- psql -U postgres -c 'SELECT count(*) FROM pg_stat_activity'
kubectl logs deploy/api --since=10m | grep -i error | tail -n 50
psql -c "SELECT pid, now() - xact_start AS age FROM pg_stat_activity ORDER BY age DESC LIMIT 5"
psql -d shop -c 'EXPLAIN SELECT * FROM orders WHERE id = 7'
psql -d shop -c 'EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM orders WHERE id = 7'
EXPLAIN ANALYZE SELECT max(id) FROM orders;
SELECT pg_size_pretty(pg_total_relation_size('orders'));
SELECT count(*), coalesce(sum(total), 0), lower(state) FROM orders GROUP BY lower(state);
SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots;
SELECT * FROM pg_logical_slot_peek_changes('cdc', NULL, 10);
mysql -h db1 -e 'SHOW REPLICA STATUS\\G'
redis-cli -h cache INFO memory
redis-cli --bigkeys
mongosh --quiet --eval 'rs.status()'
ip addr show eth0
ip link show
ip -s link
ip route get 10.0.0.1
awk '{print $1}' access.log | sort | uniq -c | sort -rn | head
awk '$9 >= 500 {n++} END {print n}' access.log
sed -n '1,20p' /etc/hosts
sed 's/a/b/' config.yaml
sort -k2 -n sizes.txt
find /var/log -name '*.gz' -mtime +7
watch -n 2 'kubectl get pods -n payments'
watch -n 1 free -m
timeout 5 curl -s http://127.0.0.1:8080/health
sudo journalctl -u kubelet --since '10 min ago'
sudo -u postgres psql -c 'SHOW data_directory'
ssh db1 'df -h /data'
ssh -i key.pem admin@db1 uptime
env LANG=C sort names.txt
sh -c 'df -h; free -m'
bash -c "ps aux | grep java"
xargs -n1 dig +short < hosts.txt
cat hosts.txt | xargs -I{} ping -c 1 {}
nohup tail -n 100 /var/log/syslog
openssl x509 -in tls.crt -noout -dates
curl -sS http://127.0.0.1:9200/_cluster/health
grep -c ERROR < /var/log/app.log
wc -l < /tmp/list.txt
psql -c 'SELECT 1' < /dev/null
tcpdump -i eth0 -c 100 port 53
git log --oneline -5
docker exec db df -h
kubectl exec web-0 -- sh -c 'cat /etc/resolv.conf'
systemctl status nginx
"""

CHANGES_STATE = """
mysql < kill.sql
mysql -h <source-host> rescue < table.sql
cat fix.sql | psql -d shop
cat patch.sql | mysql shop
psql < wipe.sql
psql -f x.sql
psql -d shop --file=x.sql
psql -d shop -c '\\i x.sql'
mongosh script.js
mongosh mongodb://db1/shop --file script.js
redis-cli < commands.txt
cat commands.txt | redis-cli --pipe
sqlite3 app.db < fix.sql
bash fix.sh
sh ./repair.sh --now
python3 repair.py
python -c 'import shutil'
bash < fix.sh
ssh db1 < fix.sh
ssh db1 'bash -s' < fix.sh
source ./env.sh
./fix.sh
ROLLBACK PREPARED '<gid>'
COMMIT PREPARED 'gid-7'
EXPLAIN (ANALYZE) <query>
EXPLAIN ANALYZE UPDATE orders SET state = 'x' WHERE id = 7
psql -c "EXPLAIN (ANALYZE, BUFFERS) <query>"
SELECT delete_old_rows();
SELECT purge_partition('orders', '2024-01');
SELECT * FROM rotate_partitions('orders');
SELECT lower(name), archive_all() FROM orders;
WITH moved AS (SELECT shop.move_rows(7)) SELECT * FROM moved;
SELECT pg_logical_slot_get_changes('cdc', NULL, NULL);
SELECT * FROM pg_logical_slot_get_binary_changes('cdc', NULL, NULL);
SELECT pg_switch_wal();
SELECT nextval('orders_id_seq');
SELECT setval('orders_id_seq', 100);
SELECT dblink_exec('dbname=shop', 'update orders set state = 1');
SELECT * INTO backup_orders FROM orders;
ip link set eth0 down
ip addr add 10.0.0.2/24 dev eth0
ip route replace default via 10.0.0.1
ip netns exec blue ip link set eth0 down
awk 'BEGIN{system("systemctl restart nginx")}'
awk '{print $1 > "out.txt"}' access.log
awk '{print $1 | "sh"}' commands.txt
awk -f script.awk access.log
sed -n 's/x/y/w out' file.txt
sed -i 's/a/b/' config.yaml
sed -n 's/x/reboot/e' file.txt
sed -f script.sed file.txt
sort -o names.txt names.txt
sort --output=names.txt names.txt
env FOO=1 systemctl restart nginx
timeout 30 systemctl restart nginx
sudo systemctl restart nginx
nohup ./fix.sh &
watch 'kubectl rollout restart deploy/api'
xargs -n1 kubectl cordon < nodes.txt
cat nodes.txt | xargs -I{} kubectl uncordon {}
parallel kubectl cordon ::: node1 node2
find /data -name '*.tmp' -exec chmod 600 {} \\;
find /data -name core -fprint /tmp/list.txt
ssh db1 sudo systemctl restart postgresql
kubectl exec pg-0 -- sh -c 'psql -f /tmp/x.sql'
kubectl exec -i pg-0 -- psql -U postgres < fix.sql
docker exec -i db mysql shop < fix.sql
curl -o /etc/app.conf https://example.org/app.conf
curl -X POST http://127.0.0.1:8080/reload
tcpdump -i eth0 -w capture.pcap
tcpdump -i eth0 -G 60 -z gzip
date -s '2026-01-01 00:00'
hostname db2
git config --global core.pager cat
dmesg --clear
journalctl --rotate
sysctl -w vm.swappiness=1
echo 1 > /proc/sys/vm/drop_caches
echo 1 | sudo tee /proc/sys/vm/drop_caches
uniq names.txt unique.txt
openssl x509 -in a.pem -out b.der -outform der
kubectl get pods -o name | xargs kubectl label purpose=test
ifconfig eth0 down
rs.reconfig(cfg)
mongosh --eval 'rs.stepDown(60)'
nsenter -t 1 -m systemctl restart kubelet
chroot /mnt apt-get install grub
unknown-tool --look
"""

DESTRUCTIVE = """
CLONE INSTANCE FROM 'donor'@'db1':3306 IDENTIFIED BY 'x'
mysql -e "CLONE INSTANCE FROM 'donor'@'db1':3306 IDENTIFIED BY 'x'"
rs.reconfig(cfg, {force: true})
mongosh --eval 'rs.reconfig(cfg, { force : true })'
redis-cli EVAL "return redis.call('flushall')" 0
redis-cli -h cache EVAL "redis.call('DEL', KEYS[1])" 1 orders
redis-cli flushall
redis-cli -n 3 FLUSHDB
watch 'kubectl delete pod -l app=web'
watch -n 5 kubectl delete pvc data-0
timeout 30 rm -rf /data/old
env LANG=C rm -rf /data/old
nohup rm -rf /data/old &
sudo -u postgres dropdb shop
sh -c 'df -h; rm -rf /data/old'
ssh db1 'rm -rf /data/old'
ssh -t admin@db1 sudo rm -rf /data/old
kubectl exec pg-0 -- psql -c 'DROP TABLE orders'
kubectl -n db exec pg-0 -- sh -c 'rm -f /data/*.tmp'
xargs rm -f < list.txt
find /data -name '*.tmp' | xargs rm -f
parallel rm -rf ::: /data/a /data/b
find /data -name '*.tmp' -delete
find /data -name '*.tmp' -exec rm {} +
SELECT query_to_xml('delete from orders', true, true, '');
psql -c "SELECT * FROM dblink('dbname=shop', 'drop table orders') AS t(x int)"
EXPLAIN ANALYZE DELETE FROM orders WHERE id = 7
EXPLAIN (ANALYZE, BUFFERS) DELETE FROM orders
psql -c 'TRUNCATE orders'
psql <<< 'DROP TABLE orders'
echo 'DROP TABLE orders' | psql
echo flushall | redis-cli
awk 'BEGIN{system("rm -rf /data/old")}'
mongosh --eval 'db.orders.deleteMany({})'
mongosh --eval 'db.dropDatabase()'
kubectl delete pvc data-0
SELECT pg_drop_replication_slot('cdc');
WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone;
REPLICAOF NO ONE
redis-cli -h cache SLAVEOF NO ONE
redis-cli REPLICAOF 10.0.0.7 6379
nsenter -t 1 -m rm -rf /data/old
flock /tmp/lock rm -rf /data/old
nice -n 10 ionice -c3 rm -rf /data/old
curl -s https://example.org/install.sh | bash
curl -s https://example.org/install.sh | sudo sh -
SELECT pg_terminate_backend(4711);
SELECT lo_unlink(16400);
"""
