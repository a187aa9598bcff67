// Of each message, a line of JSON text, prints as a line of JSON why the validator refuses it, or null.
// The argument is the pattern of the hosts whose certificates are trusted.
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import MessageValidator from "sns-validator";

const validator = new MessageValidator(new RegExp(process.argv[2]));
const validate = promisify(validator.validate.bind(validator));

for await (const line of createInterface({ input: process.stdin })) {
  const refusal = await validate(JSON.parse(line)).then(() => null, (error) => error.message);
  console.log(JSON.stringify(refusal));
}
