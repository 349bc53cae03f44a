from __future__ import annotations

from pathlib import Path

import pooch
import pytest
import requests


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No test reaches the network; the addresses that were asked for."""
    asked: list[str] = []

    def refuse(url: str, *_: object, **__: object) -> str:
        asked.append(url)
        raise requests.exceptions.ConnectionError("refused")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    return asked


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("NONIID_DATA", str(tmp_path))
    return tmp_path
