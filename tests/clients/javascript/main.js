// Drives a running service, which the environment names, through the AWS SDK for JavaScript v3.
// Prints a line of JSON for each scenario.
import { access } from "./access.js";
import { consuming } from "./consuming.js";
import { deadLetters } from "./dead-letters.js";
import { fifo } from "./fifo.js";
import { messages } from "./messages.js";
import { queues } from "./queues.js";
import { topics } from "./topics.js";

const scenarios = { ...queues, ...messages, ...fifo, ...deadLetters, ...access, ...topics, ...consuming };

for (const [scenario, run] of Object.entries(scenarios)) {
  try {
    await run();
    console.log(JSON.stringify({ scenario, ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ scenario, ok: false, error: error.stack }));
    process.exitCode = 1;
  }
}
