package manager;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import software.amazon.awssdk.messagemanager.sns.SnsMessageManager;
import software.amazon.awssdk.regions.Region;

/** Of each line, a region, a tab and a message in JSON, prints why that region's manager refuses it, or nothing. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, SnsMessageManager> managers = new HashMap<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] asked = line.split("\t", 2);
            answers.println(refusal(managers.computeIfAbsent(asked[0], Main::managerOf), asked[1]));
        }
        answers.flush();
        managers.values().forEach(SnsMessageManager::close);
    }

    private static SnsMessageManager managerOf(String region) {
        return SnsMessageManager.builder().region(Region.of(region)).build();
    }

    private static String refusal(SnsMessageManager manager, String message) {
        try {
            manager.parseMessage(message);
            return "";
        } catch (RuntimeException refused) { // the SDK's own, or a NullPointerException where a member is missing
            return String.valueOf(refused.getMessage()).lines().findFirst().orElseThrow();
        }
    }
}
