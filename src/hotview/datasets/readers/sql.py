"""Results of SQL queries to DuckDB databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hotview._messages import ParameterError
from hotview.datasets.readers.arrow import ArrowTable
from hotview.datasets.readers.errors import listed, reading

__all__ = ["read_query"]

#: A query reads this database and nothing else.
_SETTINGS: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
}


def read_query(path: Path, name: str = "", *, query: str | None = None) -> ArrowTable:
    """Read the result of a query to a database, which is opened read-only.

    Parameters
    ----------
    path : Path
        A DuckDB file.
    name : str, default=""
        Name of the file in options.
    query : str or None, default=None
        The query; None reads a database of one table.

    Returns
    -------
    ArrowTable
        The result.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs duckdb. Run pip install "hotview[sql]".'
        ) from error
    with reading(path, "a DuckDB database"):
        database = duckdb.connect(str(path), read_only=True, config=_SETTINGS)
    with database:
        query = query or _query_of_one_table(path, name, database)
        try:
            result = database.sql(query)
            table = None if result is None else result.to_arrow_table()
        except duckdb.Error as error:
            # The rest shows the place in the query.
            reason = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise ValueError(f"{path}: the query {query!r} fails: {reason}") from error
    if table is None or table.num_rows == 0:
        raise ValueError(f"{path}: the query {query!r} returns no rows. Correct it.")
    return ArrowTable(path, table, name=name)


def _query_of_one_table(path: Path, name: str, database: Any) -> str:
    tables = [row[0] for row in database.execute("SHOW TABLES").fetchall()]
    queries = [f'SELECT * FROM "{table.replace(chr(34), chr(34) * 2)}"' for table in tables]
    if len(tables) != 1:
        raise ParameterError(
            f"Expected {path} to have one table, but it has {listed(tables) or 'none'}. ",
            "Pass {query}." if tables else "",
            query={name: next(iter(queries), "")},
        )
    return queries[0]
