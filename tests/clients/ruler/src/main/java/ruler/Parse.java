package ruler;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Of each line, a JSON string, says what Jackson says of the text in it: a JSON string, or null when it is JSON. */
public final class Parse {
    private static final JsonMapper MAPPER = new JsonMapper();
    private static final ObjectReader READER =
            MAPPER.readerFor(JsonNode.class).with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private Parse() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(MAPPER.writeValueAsString(fault(MAPPER.readTree(line).asText())));
        }
        answers.flush();
    }

    private static String fault(String text) {
        try {
            READER.readValue(text);
            return null;
        } catch (JsonProcessingException fault) {
            return fault.getMessage();
        }
    }
}
