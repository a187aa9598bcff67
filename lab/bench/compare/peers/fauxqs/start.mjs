// Starts it without the log line that its command writes for each request. Arguments: port, directory (none: in memory).
import { mkdirSync } from "node:fs";
import { startFauxqs } from "fauxqs";

const [port, dataDir] = process.argv.slice(2);
if (dataDir) mkdirSync(dataDir, { recursive: true });
await startFauxqs({ port: Number(port), logger: false, dataDir });
