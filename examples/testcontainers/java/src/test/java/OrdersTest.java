import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;

class OrdersTest {
    @Test
    void anOrderArrives() {
        try (GenericContainer<?> cns = new GenericContainer<>(DockerImageName.parse("cns"))
                .withCommand("up", "--auth", "off", "--test-clock")
                .withExposedPorts(6059)
                .waitingFor(Wait.forHttp("/ready").forPort(6059))) {
            cns.start();
            URI endpoint = URI.create("http://" + cns.getHost() + ":" + cns.getMappedPort(6059));
            try (SqsClient sqs = SqsClient.builder()
                    .endpointOverride(endpoint)
                    .region(Region.US_EAST_1)
                    .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("test", "test")))
                    .build()) {
                String queue = sqs.createQueue(request -> request.queueName("orders")).queueUrl();
                sqs.sendMessage(request -> request.queueUrl(queue).messageBody("order 42"));
                var messages = sqs.receiveMessage(request -> request.queueUrl(queue).waitTimeSeconds(20)).messages();
                assertEquals("order 42", messages.get(0).body());
            }
        }
    }
}
