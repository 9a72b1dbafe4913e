#!/bin/sh
# Write .env from .env.example: lines of an existing .env stay, missing ones are added, `=generate` becomes a secret.
# usage: deploy/compose/env.sh [EXAMPLE [TARGET]]
set -eu
example=${1:-.env.example} target=${2:-.env}
umask 077
test -e "$target" || : >"$target"
chmod 600 "$target"
partial=$target.part
cp "$target" "$partial"
while IFS= read -r line || test -n "$line"; do
  case $line in
    '' | '#'*) test -s "$target" || printf '%s\n' "$line" >>"$partial"; continue ;;
  esac
  name=${line%%=*} value=${line#*=}
  if grep -q "^$name=" "$target"; then continue; fi
  if test "$value" = generate; then
    value=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
    test ${#value} -eq 48 || { echo "no random numbers from /dev/urandom" >&2; exit 1; }
  fi
  printf '%s=%s\n' "$name" "$value" >>"$partial"
done <"$example"
mv "$partial" "$target"
