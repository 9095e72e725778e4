// An HTTP server with four threads that answers after SECONDS; /count returns the number of requests so far.
// Arguments: PORT SECONDS [locked]. `locked`: eight threads, one request at a time, by a monitor.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

public class Server {
    public static void main(String[] arguments) throws Exception {
        long milliseconds = Math.round(Double.parseDouble(arguments[1]) * 1000);
        boolean isLocked = arguments.length > 2 && arguments[2].equals("locked");
        Object monitor = new Object();
        AtomicLong count = new AtomicLong();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 64);
        server.createContext("/", exchange -> {
            byte[] body = String.valueOf(count.incrementAndGet()).getBytes();
            if (!exchange.getRequestURI().getPath().equals("/count")) {
                try {
                    if (isLocked) {
                        synchronized (monitor) {
                            Thread.sleep(milliseconds);
                        }
                    } else {
                        Thread.sleep(milliseconds);
                    }
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(isLocked ? 8 : 4));
        server.start();
    }
}
