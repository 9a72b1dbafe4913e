"""The official clients of OpenAI's API and of MCP, unchanged, against the real processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from openai.types.chat import ChatCompletionUserMessageParam
from whole_stack import Stack

from cairn_shared.api.ask import AskResponse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
QUESTION = "How do I recover a PostgreSQL replica that has fallen behind on WAL?"


@pytest.fixture(scope="module", name="seeded")
def _seeded(stack: Stack) -> Stack:
    stack.run("cairn", "seed")
    return stack


@pytest.fixture(name="ai")
def _ai(seeded: Stack) -> Iterator[openai.OpenAI]:
    key = seeded.http.headers["authorization"].removeprefix("Bearer ")
    with openai.OpenAI(base_url=str(seeded.http.base_url).rstrip("/") + "/v1", api_key=key, max_retries=0) as client:
        yield client


def test_a_chat_is_answered_with_the_same_citations_streamed_or_not(seeded: Stack, ai: openai.OpenAI) -> None:
    message: ChatCompletionUserMessageParam = {"role": "user", "content": QUESTION}
    chunks = list(ai.chat.completions.create(model="cairn", messages=[message], stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    completion = ai.chat.completions.create(model="cairn", messages=[message])
    assert completion.choices[0].message.content == text
    assert text.startswith(seeded.ask(QUESTION)["answer"])
    assert "[read-only]" in text
    cairn = (completion.model_extra or {})["cairn"]
    markers = {citation["marker"] for claim in cairn["claims"] for citation in claim["citations"]}
    assert markers
    assert all(marker in text for marker in markers)
    assert (chunks[-1].model_extra or {})["cairn"]["claims"] == cairn["claims"]
    assert len(chunks) > 3


def test_texts_are_embedded_by_the_model_of_the_search(ai: openai.OpenAI) -> None:
    (model,) = (model.id for model in ai.models.list() if model.id != "cairn")
    near, also, far = (item.embedding for item in ai.embeddings.create(
        model=model, input=["replica lag", "the standby is behind", "printer paper"]
    ).data)  # fmt: skip
    assert sum(a * b for a, b in zip(near, also, strict=True)) > sum(a * b for a, b in zip(near, far, strict=True))


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_a_model_asks_searches_and_reads_with_the_tools(seeded: Stack, way: str) -> None:
    headers = {"authorization": seeded.http.headers["authorization"]}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        stdio = StdioServerParameters(
            command=str(Path(sys.executable).with_name("cairn")), args=["mcp"], env={"CAIRN_HOME": str(seeded.home)}
        )
        url = str(seeded.http.base_url).rstrip("/") + "/mcp"
        async with Client(stdio if way == "stdio" else streamable_http_client(url, http_client=http)) as mcp:
            asked = await mcp.call_tool("ask", {"question": QUESTION})
            answer = AskResponse.model_validate(asked.structured_content)
            assert answer.claims
            cited = answer.claims[0].citations[0]
            found = await mcp.call_tool("search", {"query": QUESTION, "kind": "runbook"})
            assert cited.runbook_id in {hit["runbook_id"] for hit in found.structured_content["results"]}
            runbook = (await mcp.call_tool("get_runbook", {"runbook_id": cited.runbook_id})).structured_content
            assert runbook["title"] == cited.title
            assert cited.step in {step["number"] for step in runbook["steps"]}
