"""Commands in a step, and the placeholders in them."""

from __future__ import annotations

import pytest

from cairn_answerer.alerts import label_values
from cairn_answerer.commands import MAX_COMMANDS, commands
from cairn_answerer.placeholders import fill
from cairn_shared.api.ask import AskRequest

STEP = """1. Look at `df -h` and the word `postgresql.conf`, then:

   ```bash
   # a comment
   $ kubectl -n $NAMESPACE logs <pod> \\
       --tail=100
   for h in <host-1> <host-2>; do
     ssh $h uptime
   done
   psql -c "SELECT 1,
     2"
   cat <<EOF > /tmp/x
   a $b
   EOF
   ```

   ```sql
   -- a comment
   SELECT a,
          ';' AS b
   FROM t; DROP TABLE <table>;
   ```

   ```
   NAME   READY   STATUS
   pod-1  0/1     CrashLoopBackOff
   ```

   ```yaml
   kubectl: delete
   ```

   ```javascript
   // a comment
   db.c.find({ a: "$x" })
     .limit(5)
   ```

   ```console
   $ git status
   On branch main
   $ git push --force
   ```

   ```
   redis-cli INFO
   ```
"""


def test_commands_are_found_whole_and_output_is_not() -> None:
    found, further = commands(STEP, {})
    assert further == 0
    assert [(command.text, command.safety) for command in found] == [
        ("df -h", "read-only"),
        ("kubectl -n $NAMESPACE logs <pod> \\\n    --tail=100", "read-only"),
        ("for h in <host-1> <host-2>; do\n  ssh $h uptime\ndone", "read-only"),
        ('psql -c "SELECT 1,\n  2"', "read-only"),
        ("cat <<EOF > /tmp/x\na $b\nEOF", "changes state"),
        ("SELECT a,\n       ';' AS b\nFROM t;", "read-only"),
        ("DROP TABLE <table>;", "destructive"),
        ('db.c.find({ a: "$x" })\n  .limit(5)', "read-only"),
        ("git status", "read-only"),
        ("git push --force", "destructive"),
        ("redis-cli INFO", "read-only"),
    ]
    assert found[1].unfilled == ["$NAMESPACE", "<pod>"]
    assert found[2].unfilled == ["<host-1>", "<host-2>"]
    assert found[6].unfilled == ["<table>"]
    assert found[7].unfilled == []


def test_an_unclosed_fence_is_read_to_its_end() -> None:
    assert [command.text for command in commands("```sh\nls -l\nrm x", {})[0]] == ["ls -l", "rm x"]


def test_a_here_string_does_not_swallow_the_lines_below_it() -> None:
    found, _ = commands('```sh\npsql <<< "SELECT 1"\nrm x\n```', {})
    assert [(command.text, command.safety) for command in found] == [
        ('psql <<< "SELECT 1"', "read-only"),
        ("rm x", "destructive"),
    ]


def test_commands_that_are_too_many_to_be_labelled_are_counted() -> None:
    step = "```sh\n" + "\n".join(f"rm file-{number}" for number in range(MAX_COMMANDS + 3)) + "\nrm file-1\n```"
    labelled, further = commands(step, {})
    assert (len(labelled), further) == (MAX_COMMANDS, 3)


@pytest.mark.parametrize(
    ("span", "is_command"),
    [
        ("CONFIG SET dir", False),
        ("CONFIG SET appendonly yes", True),
        ("CONFIG REWRITE", True),
        ("VACUUM FULL", False),
        ("DROP INDEX CONCURRENTLY", False),
        ("DROP INDEX CONCURRENTLY idx_a;", True),
        ("INSERT ... ON CONFLICT DO NOTHING", False),
        ("SHOW ENGINE INNODB STATUS", True),
        ("START REPLICA;", True),
        ("psql: error: connection refused", False),
        ("psql -c 'SELECT 1'", True),
        ("date -d @<seconds>", True),
        ("kubectl", False),
    ],
)
def test_a_code_span_that_only_names_a_command_is_none(span: str, is_command: bool) -> None:
    assert bool(commands(f"After a `{span}` by somebody, look.", {})[0]) is is_command


@pytest.mark.parametrize(
    ("command", "filled", "unfilled"),
    [
        ("kubectl -n $NAMESPACE get pod <pod>", "kubectl -n prod get pod pg-1", ()),
        ("kubectl -n ${NAMESPACE} get pod $POD_NAME", "kubectl -n prod get pod pg-1", ()),
        ("get <pod-name> <the affected pod> <POD>", "get pg-1 pg-1 pg-1", ()),
        ("x {{ $labels.instance }} {{ .Labels.pod }}", "x 10.0.0.5:9100 pg-1", ()),
        ("x <unknown> $OTHER <unknown>", "x <unknown> $OTHER <unknown>", ("<unknown>", "$OTHER")),
        ("awk '{print $pod}' $1 $?", "awk '{print $pod}' $1 $?", ()),
        ("pod=a; echo $pod", "pod=a; echo $pod", ()),
        ("mysql < dump.sql > out", "mysql < dump.sql > out", ()),
        ("diff <(ls a) <(ls b)", "diff <(ls a) <(ls b)", ()),
        ("cat <<EOF\n<pod>\nEOF", "cat <<EOF\npg-1\nEOF", ()),
        ("echo $HOME $(pod)", "echo $HOME $(pod)", ()),
        ("rm <evil>", "rm <evil>", ("<evil>",)),
    ],
)
def test_placeholders_are_filled_from_labels(command: str, filled: str, unfilled: tuple[str, ...]) -> None:
    values = {"namespace": "prod", "pod": "pg-1", "instance": "10.0.0.5:9100", "evil": "x; rm -rf /"}
    result = fill(command, values)
    assert (result.text, result.unfilled) == (filled, unfilled)


def test_labels_come_from_the_alert_or_from_pasted_json() -> None:
    alert = AskRequest.model_validate({"question": "q", "alert": {"labels": {"pod": "a"}}})
    assert label_values(alert) == {"pod": "a"}
    one = '[FIRING:1] {"alerts": [{"labels": {"alertname": "X", "pod": "b"}}], "commonLabels": {"namespace": "n"}} help'
    assert label_values(AskRequest(question=one)) == {"alertname": "X", "pod": "b", "namespace": "n"}
    two = '{"alerts": [{"labels": {"pod": "b"}}, {"labels": {"pod": "c"}}], "commonLabels": {"alertname": "X"}}'
    assert label_values(AskRequest(question=two)) == {"alertname": "X"}
    assert label_values(AskRequest(question="plain {text} [here]")) == {}
    assert label_values(AskRequest(question='{"labels": ' * 500)) == {}


def test_labels_that_are_secrets_are_left_out() -> None:
    """Pitfall 21."""
    labels = {"password": "hunter22", "note": "ghp_" + "a1B2" * 9, "secret": "db-credentials", "commit": "3f9d0682b1a4"}
    asked = AskRequest.model_validate({"question": "q", "alert": {"labels": labels}})
    assert label_values(asked) == {"secret": "db-credentials", "commit": "3f9d0682b1a4"}
