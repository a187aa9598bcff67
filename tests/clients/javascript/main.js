// Drives a running service, which the environment names, through the AWS SDK for JavaScript v3.
// Prints a line of JSON for each scenario.
import { access } from "./access.js";
import { consuming } from "./consuming.js";
import { deadLetters } from "./dead-letters.js";
import { fifo } from "./fifo.js";
import { fifoTopics } from "./fifo-topics.js";
import { messages } from "./messages.js";
import { phones } from "./phones.js";
import { queues } from "./queues.js";
import { subscriptions } from "./subscriptions.js";
import { topics } from "./topics.js";

const ofQueues = { ...queues, ...messages, ...fifo, ...deadLetters, ...access, ...consuming };
const ofTopics = { ...topics, ...subscriptions, ...fifoTopics, ...phones };
const scenarios = { ...ofQueues, ...ofTopics };

for (const [scenario, run] of Object.entries(scenarios)) {
  try {
    await run();
    console.log(JSON.stringify({ scenario, ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ scenario, ok: false, error: error.stack }));
    process.exitCode = 1;
  }
}
