"""What is known of words beforehand: which are one to an engineer, which say nothing, and which name a product.

`GROUPS` holds only spellings, nicknames and abbreviations of one thing (`pg` for PostgreSQL, `cert` for certificate):
words that are merely related are the embedding's business.
"""

from __future__ import annotations

import re

GROUPS: tuple[tuple[str, ...], ...] = (
    ("postgresql", "postgres", "pg"),
    ("mongodb", "mongo"),
    ("kubernetes", "k8s"),
    ("elasticsearch", "es"),
    ("prometheus", "prom"),
    ("primary", "master"),
    ("replica", "slave", "standby", "secondary"),
    ("application", "app"),
    ("authentication", "auth"),
    ("certificate", "cert"),
    ("configuration", "config"),
    ("connection", "conn"),
    ("database", "db"),
    ("deployment", "deploy"),
    ("directory", "dir"),
    ("environment", "env"),
    ("error", "err"),
    ("filesystem", "fs"),
    ("memory", "mem"),
    ("message", "msg"),
    ("namespace", "ns"),
    ("parameter", "param"),
    ("performance", "perf"),
    ("production", "prod"),
    ("replication", "repl"),
    ("repository", "repo"),
    ("service", "svc"),
    ("temporary", "temp", "tmp"),
    ("transaction", "txn", "tx"),
    ("volume", "vol"),
)

_TELLING = """
actually again already also always answer any anybody anymore anyone anything anyway anywhere apparently around away
back bad badly basically bit bunch came cause caused change changed come comes coming command commands crazy current
currently day days dear doc docs documentation else especially even ever every everybody everyone everything
everywhere exactly example examples explain fast find fine first fix fixed folks get gets getting give gives giving go
goes going gone good got great guide guy guys happen happened happening happens hello help here hey hi hour hours
howto idea immediately instead instructions just keep keeps kind kinda know last late lately later least left let like
little long look looking looks lot lots made make makes making many maybe mean meaning means minute minutes moment
month months morning much nasty need needed needs never new next night nobody noone normal nothing now obviously odd
often ok okay old once one other others part people perhaps please possible possibly pretty probably procedure
question quick quickly quite random randomly real really recent recently right runbook runbooks said same saw say says
see seeing seem seems seen several show shown shows simply since single somebody somehow someone something sometimes
somewhere soon sorry step steps still strange stuff sudden suddenly sure syntax take takes taking tell tells thank
thanks thing things think though times today together tomorrow tonight took total tried tries truly try trying turn
two understand unfortunately upon us usage use used user using usual usually wait want wanted wants way week weeks
weird well went whatever whenever whole whose why wonder work works worse worst wrong year years yes yesterday yet
asap btw cheers fyi pls plz thx ty urgent urgently
"""
FILLERS = frozenset(_TELLING.split())
"""Words by which people tell or ask, whatever it is about. That a page lacks them is no sign that it lacks the answer.

They are searched all the same: without them fewer right pages came first.
"""

_PRODUCTS = """
activemq airflow alertmanager bigquery ceph clickhouse consul couchbase couchdb dynamodb envoy etcd flink gitlab grafana
haproxy hbase influxdb istio jenkins kafka keycloak loki minio nats neo4j nginx nomad oracle pulsar rabbitmq redshift
snowflake solr spark sqlite teradata thanos traefik varnish vault zookeeper db2
cassandra,scylla,scylladb cockroachdb,cockroach elasticsearch,elastic,opensearch gluster,glusterfs hadoop,hdfs
memcached,memcache mongodb,mongo,mongod,mongos,mongosh mssql,sqlserver mysql,mysqld,mariadb,innodb
postgresql,postgres,pg,psql,psycopg,psycopg2,libpq prometheus,prom redis,valkey
"""
PRODUCTS: tuple[tuple[str, ...], ...] = tuple(tuple(group.split(",")) for group in _PRODUCTS.split())
"""Servers, brokers and stores that a question may be about, each with its other names.

A page about another product is no answer, however near it is: what to do when Cassandra's disk is full is not what to
do when MySQL's is. Platforms (Kubernetes, Linux) and languages are none: any page may take them for granted.
"""

_WORD = re.compile(r"[a-z0-9]+")
_GROUP_OF = {word: group for group in GROUPS for word in group}


def spellings(text: str) -> tuple[tuple[str, ...], ...]:
    """The groups that `text` has a word of, singular or plural, in the order of first occurrence."""
    found: dict[tuple[str, ...], None] = {}
    for word in _WORD.findall(text.casefold()):
        group = _GROUP_OF.get(word) or _GROUP_OF.get(word.removesuffix("s"))
        if group is not None:
            found[group] = None
    return tuple(found)


def fillers(text: str) -> tuple[str, ...]:
    """The words of `text` that say nothing of what it is about, each once."""
    return tuple(dict.fromkeys(word for word in _WORD.findall(text.casefold()) if word in FILLERS))


_PRODUCT_OF = {word: group for group in PRODUCTS for word in group}


def products(text: str) -> tuple[str, ...]:
    """The products that `text` names, by the first name of each, in the order of first occurrence."""
    folded = text.casefold().replace("sql server", "sqlserver")
    return tuple(dict.fromkeys(_PRODUCT_OF[word][0] for word in _WORD.findall(folded) if word in _PRODUCT_OF))


def aliases(product: str) -> tuple[str, ...]:
    """All names of a product."""
    return _PRODUCT_OF[product]
