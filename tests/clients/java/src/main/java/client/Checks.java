package client;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** What a scenario says of the answers it gets; each throws when it is not so. */
final class Checks {
    private static final Duration WAIT = Duration.ofSeconds(60);
    private static final Duration LOOK = Duration.ofMillis(20);

    private Checks() {}

    static void check(boolean isSo, String complaint) {
        if (!isSo) {
            throw new AssertionError(complaint);
        }
    }

    static void equal(Object got, Object want) {
        check(Objects.equals(got, want), "got " + got + ", want " + want);
    }

    /** The call fails with this class, this code of the Query protocol, this status. */
    static void refused(Callable<?> call, Class<? extends AwsServiceException> kind, String code, int status)
            throws Exception {
        try {
            call.call();
        } catch (AwsServiceException error) {
            check(kind.isInstance(error), "got " + error + ", want " + kind);
            equal(error.awsErrorDetails().errorCode(), code);
            equal(error.statusCode(), status);
            return;
        }
        throw new AssertionError("accepted, want " + code);
    }

    /** Looks until it is so. */
    static void until(Callable<Boolean> look) throws Exception {
        long end = System.nanoTime() + WAIT.toNanos();
        while (!look.call()) {
            check(System.nanoTime() < end, "not within " + WAIT);
            Thread.sleep(LOOK.toMillis());
        }
    }
}
