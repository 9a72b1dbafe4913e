"""The steps of a Markdown document, from its syntax tree.

The procedure is every item of an ordered list that stands in a section by itself, every heading like `Step 3` or
`3.` with all that is below it, and every item of a checklist. They are numbered 1..N in document order, whatever
digits the author wrote; the author's own are kept as `label`, counted on where every item is written `1.`.

The rest of each section (its paragraphs, plain lists, fences and tables) is one more step of kind `section`,
numbered after N in document order: prose can be found and cited, and adding some does not renumber the procedure.

Nested items, fences and tables belong to the step that they stand in. So does a fence, table or quotation that
directly follows a list item without indentation, and a paragraph between two items whose list it interrupts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.model import Step, StepKind
from cairn_shared.runbooks.outline import Block, Item, Outline, Section, step_label

MAX_STEPS = 2000
_CHECKBOX = re.compile(r"\[[ xX]\](?=\s)[ \t]*")
_MARKER = re.compile(r"([ \t]*(?:[-*+]|\d{1,9}[.)]))([ \t]*)")
_INDENTATION = re.compile(r"[ \t]*")
_REFERENCE_USE = re.compile(r"\[([^\[\]]{1,200})\]")


@dataclass(frozen=True)
class _Draft:
    """A step before it has its number: line ranges from 0, ends not included.

    Lines before `item_end` are indented as the item of a list is.
    """

    kind: StepKind
    label: str
    section: str
    ranges: tuple[tuple[int, int], ...]
    item_end: int = 0


def find_steps(lines: Sequence[str], outline: Outline) -> list[Step]:
    """The steps of a document, given as its lines, in the order of their numbers.

    Raises:
        InvalidInput: there are more than `MAX_STEPS`.
    """
    procedure: list[_Draft] = []
    prose: list[_Draft] = []
    at = 0
    while at < len(outline.sections):
        section, below = outline.sections[at], outline.below(at)
        at += 1
        label = step_label(section.heading)
        if label and not any(step_label(other.heading) for other in below):
            end = max(other.end for other in (section, *below))
            procedure.append(_Draft("heading", label, _joined(section.path[:-1]), ((section.start, end),)))
            at += len(below)
        else:
            drafts, rest = _divide(section, lines)
            procedure += drafts
            prose += rest
    drafts = procedure + prose
    if len(drafts) > MAX_STEPS:
        raise InvalidInput(f"more than {MAX_STEPS} steps: split the file", field="markdown")
    steps = [_step(draft, number, lines, outline.references) for number, draft in enumerate(drafts, 1)]
    return [step for step in steps if step.body]


def _joined(path: Sequence[str]) -> str:
    return " > ".join(path)


def _divide(section: Section, lines: Sequence[str]) -> tuple[list[_Draft], list[_Draft]]:
    """The procedure of one section, and its prose as at most one step."""
    path = _joined(section.path)
    lists = [block for block in section.blocks if block.is_procedure]
    labels = _labels(lists)
    steps: list[_Draft] = []
    prose: list[tuple[int, int]] = []
    interrupted: Block | None = None  # the list that what follows may belong to
    for block in section.blocks:
        if block.is_procedure:
            lists.pop(0)
            kind: StepKind = "ordered" if block.is_ordered else "checklist"
            for item in block.items:
                label = labels[len(steps)]
                steps.append(_Draft(kind, label, path, ((item.start, item.end),), item_end=item.end))
            interrupted = block
        elif interrupted and (
            block.is_shown or _announces(lines, block) or (lists and _continues(interrupted, lists[0]))
        ):
            last = steps[-1]
            steps[-1] = replace(last, ranges=((last.ranges[0][0], block.end),))
        else:
            prose.append((block.start, block.end))
            interrupted = None
    return steps, [_Draft("section", "", path, tuple(prose))] if prose else []


def _labels(lists: Sequence[Block]) -> list[str]:
    """The author's numbers; counted on where a list, or each of several lists of one item, repeats one number."""
    if len(lists) > 1 and all(len(block.items) == 1 for block in lists):
        return _counted([block.items[0] for block in lists])
    return [label for block in lists for label in _counted(block.items)]


def _counted(items: Sequence[Item]) -> list[str]:
    written = [item.label for item in items]
    if len(written) > 1 and len(set(written)) == 1 and written[0]:
        return [str(int(written[0]) + count) for count in range(len(written))]
    return written


def _continues(before: Block, after: Block) -> bool:
    """Whether `after` is the same list going on behind something that interrupted it."""
    last, first = before.items[-1].label, after.items[0].label
    if not last or not first:
        return False
    return int(first) == int(last) + 1 or (first == last and len(before.items) == len(after.items) == 1)


def _announces(lines: Sequence[str], block: Block) -> bool:
    """Whether the text before a plain list says, by its colon, that the list is to follow."""
    if block.type != "bullet_list":
        return False
    before = next((line for line in reversed(lines[max(0, block.start - 3) : block.start]) if line.strip()), "")
    return before.rstrip().endswith(":")


def _step(draft: _Draft, number: int, lines: Sequence[str], references: dict[str, str]) -> Step:
    parts: list[str] = []
    for start, end in draft.ranges:
        item = _without_marker(lines[start : min(end, draft.item_end)]) if draft.item_end else []
        parts.append("\n".join([*item, *lines[max(start, draft.item_end) : end]]).rstrip().strip("\n"))
    body = "\n\n".join(part for part in parts if part)
    first, last = draft.ranges[0][0], draft.ranges[-1][1]
    while last > first + 1 and not lines[last - 1].strip():
        last -= 1
    return Step(
        number=number,
        label=draft.label or str(number),
        section=draft.section,
        kind=draft.kind,
        body=_with_references(body, references),
        line_start=first + 1,
        line_end=last,
    )


def _without_marker(lines: Sequence[str]) -> list[str]:
    """The lines of a list item without its marker, checkbox and indentation (CommonMark §5.2)."""
    marker = _MARKER.match(lines[0])
    if not marker:
        return list(lines)
    width = len(marker[0].expandtabs(4))
    bare = len(marker[1].expandtabs(4))
    offset = width if width - bare <= 4 else bare + 1
    first = " " * (width - offset) + lines[0][marker.end() :]
    return [_CHECKBOX.sub("", first, count=1), *(_dedented(line, offset) for line in lines[1:])]


def _dedented(line: str, columns: int) -> str:
    match = _INDENTATION.match(line)
    indentation = match[0].expandtabs(4) if match else ""
    return indentation[columns:] + line.lstrip(" \t")


def _with_references(body: str, references: dict[str, str]) -> str:
    """`body` followed by the link definitions that it uses, which stood elsewhere in the document."""
    if not references:
        return body
    used = {" ".join(label.split()).upper(): label for label in _REFERENCE_USE.findall(body)}
    definitions = [f"[{label}]: {references[key]}" for key, label in used.items() if key in references]
    return "\n\n".join([body, "\n".join(definitions)]) if definitions else body
