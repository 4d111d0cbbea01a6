// Writes src/schema.ts from the description of the API:
//
//     weir node --openapi | node generate.mjs [--check]
//
// With --check, nothing is written, and a file that is not as it would be written is an error.

import { readFileSync, writeFileSync } from "node:fs";
import { json } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

const FILE = new URL("src/schema.ts", import.meta.url);

const description = await json(process.stdin);
for (const item of Object.values(description.paths)) {
  for (const operation of Object.values(item)) {
    // An error is an exception, whatever its status, and examples are for people.
    for (const [status, response] of Object.entries(operation.responses)) {
      if (status >= "400") delete operation.responses[status];
      else for (const content of Object.values(response.content ?? {})) delete content.example;
    }
    for (const content of Object.values(operation.requestBody?.content ?? {})) delete content.example;
  }
}
const ast = await openapiTS(description, { emptyObjectsUnknown: true, defaultNonNullable: false });
const text = `// Written by generate.mjs from the API's description.\n\n${astToString(ast)}`;
if (process.argv.includes("--check")) {
  if (readFileSync(FILE, "utf8") !== text) {
    console.error("src/schema.ts does not match the API: `make clients` writes it");
    process.exit(1);
  }
} else {
  writeFileSync(FILE, text);
}
