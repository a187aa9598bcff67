package ruler;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import software.amazon.event.ruler.Ruler;

/** Of each line {"policy": "...", "event": "..."} says whether AWS's rule engine matches: true, false, or why neither. */
public final class Main {
    private static final JsonMapper MAPPER = new JsonMapper();

    private Main() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(MAPPER.readTree(line)));
        }
        answers.flush();
    }

    private static String answer(JsonNode pair) {
        try {
            return Boolean.toString(Ruler.matchesRule(pair.get("event").asText(), pair.get("policy").asText()));
        } catch (Exception refusal) { // what matchesRule declares
            return refusal.toString().lines().findFirst().orElseThrow();
        }
    }
}
