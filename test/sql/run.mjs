// Runs SQL statements with DuckDB: reads a JSON list of them from standard input, and prints for each a line of JSON with the
// columns, their types and the rows.
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const connection = await (await DuckDBInstance.create(':memory:')).connect();
for (const statement of JSON.parse(readFileSync(0, 'utf8'))) {
  const result = await connection.runAndReadAll(statement);
  console.log(JSON.stringify({
    columns: result.columnNames(),
    types: result.columnTypes().map(String),
    rows: result.getRowsJson().map((row) => row.map((value) => value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value))),
  }));
}
