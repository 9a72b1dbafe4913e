#!/bin/sh
# Make the Secret of the charts once, with generated passwords, for the stores of deploy/kubernetes/stores. One that is
# there stays as it is. Production has a secret store instead (values: externalSecret).
# usage: deploy/kubernetes/secret.sh [NAMESPACE [NAME]]
set -eu
namespace=${1:-cairn} name=${2:-cairn}
umask 077
if kubectl get secret "$name" -n "$namespace" >/dev/null 2>&1; then
  echo "secret $name in $namespace is there already and stays" >&2
  exit 0
fi
password() {
  value=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
  test ${#value} -eq 48 || { echo "no random numbers from /dev/urandom" >&2; exit 1; }
  printf %s "$value"
}
postgres=$(password) redis=$(password)
# Over stdin: what is in arguments, other users of the machine can read.
{
  printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: Opaque\nstringData:\n' "$name" "$namespace"
  printf '  POSTGRES_PASSWORD: "%s"\n  REDIS_PASSWORD: "%s"\n' "$postgres" "$redis"
  printf '  PG_DSN: "postgresql://cairn:%s@postgres:5432/cairn"\n' "$postgres"
  printf '  REDIS_URL: "redis://:%s@redis:6379/0"\n' "$redis"
  printf '  MONGO_URI: "mongodb://mongo:27017/?directConnection=true"\n'
  for key in CAIRN_BOOTSTRAP_API_KEY CONSOLE_SECRET SERVICE_TOKEN GITHUB_WEBHOOK_SECRET GITLAB_WEBHOOK_TOKEN JIRA_WEBHOOK_SECRET \
    ALERTMANAGER_TOKEN PAGERDUTY_WEBHOOK_SECRET; do
    value=$(password)
    printf '  %s: "%s"\n' "$key" "$value"
  done
} | kubectl create -f - >/dev/null
echo "secret $name in $namespace made" >&2
