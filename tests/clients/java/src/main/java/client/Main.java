package client;

import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Drives a running service, which the environment names, through the AWS SDK for Java v2.
 * Prints a line of JSON for each scenario.
 */
public final class Main {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    /** Throws what it found wrong. */
    @FunctionalInterface
    interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        int failures = 0;
        try (Service service = new Service()) {
            new Queues(service).addTo(scenarios);
            new Messages(service).addTo(scenarios);
            new Fifo(service).addTo(scenarios);
            new DeadLetters(service).addTo(scenarios);
            new Access(service).addTo(scenarios);
            new Consuming(service).addTo(scenarios);
            Notifying notifying = new Notifying(service);
            new Topics(notifying).addTo(scenarios);
            new Subscriptions(notifying).addTo(scenarios);
            new FifoTopics(notifying).addTo(scenarios);
            new Phones(service.sns).addTo(scenarios);
            for (var each : scenarios.entrySet()) {
                failures += succeeds(each.getKey(), each.getValue()) ? 0 : 1;
            }
        }
        System.exit(failures == 0 ? 0 : 1);
    }

    private static boolean succeeds(String name, Scenario scenario) {
        try {
            scenario.run();
            OUT.printf("{\"scenario\":%s,\"ok\":true}%n", quoted(name));
            return true;
        } catch (Exception | AssertionError wrong) {
            StringWriter trace = new StringWriter();
            wrong.printStackTrace(new PrintWriter(trace));
            OUT.printf("{\"scenario\":%s,\"ok\":false,\"error\":%s}%n", quoted(name), quoted(trace.toString()));
            return false;
        }
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each < ' ' || each == '"' || each == '\\') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        return out.append('"').toString();
    }
}
