// What a JVM does that a library in its process could break: threads, subprocesses, the signals that the JVM
// uses. Prints what must be the same with and without the shim, and exits with 3.
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

public class Program {
  static int lengthOf(String text) { return text.length(); }

  public static void main(String[] arguments) throws Exception {
    // A null pointer is a SIGSEGV for the JVM, once the method is compiled.
    int caught = 0;
    for (int i = 0; i < 50_000; ++i) {
      try {
        caught += lengthOf(i % 2 == 0 ? null : "");
      } catch (NullPointerException expected) {
        ++caught;
      }
    }
    System.out.println("caught " + caught);

    AtomicInteger sum = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 50; ++i) {
      int number = i;
      threads.add(new Thread(() -> sum.addAndGet(number)));
    }
    for (Thread thread : threads) thread.start();
    for (Thread thread : threads) thread.join();
    System.out.println("sum " + sum);

    for (String command : new String[] {"echo child; exit 5", "kill -9 $$", "exit 0"}) {
      Process process = new ProcessBuilder("sh", "-c", command).redirectErrorStream(true).start();
      String said = new String(process.getInputStream().readAllBytes()).trim();
      System.out.println("process '" + said + "' " + process.waitFor());
    }

    // The signals that the process catches, blocks and ignores.
    for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/status")))
      if (line.startsWith("Sig") && !line.startsWith("SigQ")) System.out.println(line);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
    System.exit(3);
  }
}
