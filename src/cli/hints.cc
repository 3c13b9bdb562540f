#include "cli/hints.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace gpuman::cli {
namespace {

constexpr std::array kHints{
    // Commands.
    Hint{"gpuman", "kill|stop|end|terminate|abort|qdel|scancel|gcancel",
         "to stop a job: gpuman cancel JOB; to stop it and forget it: gpuman remove JOB"},
    Hint{"gpuman", "ps|jobs|job-list|list|ls|ll|show",
         "gpuman status shows GPUs and jobs, gpuman queue what runs and waits, gpuman proclist every process "
         "on the "
         "GPUs"},
    Hint{"gpuman", "rm|del|delete|forget|unregister", "gpuman remove JOB stops a job and forgets it"},
    Hint{"gpuman", "watch|monitor|htop|nvtop|nvitop|gpustat|dashboard",
         "gpuman top watches GPUs and jobs, gpuman queue --watch the queue"},
    Hint{"gpuman", "nvidia-smi|smi|dmon|pmon",
         "gpuman status shows GPUs and jobs, gpuman proclist their processes, gpuman top watches them"},
    Hint{"gpuman", "gpus|cards", "gpuman gpu list shows the GPUs, gpuman info who has them"},
    Hint{"gpuman", "squeue|qstat|gqueue", "gpuman queue lists the jobs that run and wait"},
    Hint{"gpuman", "sbatch|qsub|batch|gbatch|enqueue|add|create",
         "gpuman submit --gpus 1 SCRIPT queues a job"},
    Hint{"gpuman", "srun|salloc|shell|bash",
         "gpuman run --gpus 1 --pty -- bash waits for a GPU and gives a shell"},
    Hint{"gpuman", "exec|start|launch|python|python3",
         "gpuman run --tag NAME --memory 8GiB -- COMMAND starts a job at once; gpuman submit queues one"},
    Hint{"gpuman", "sinfo|ginfo|nodes|free", "gpuman info shows the GPUs as the queue sees them"},
    Hint{"gpuman", "sacct|sreport|gstats|usage|report",
         "gpuman stats shows what was used; gpuman queue --all ended jobs"},
    Hint{"gpuman", "scontrol|gjob|hold|release|redo|attach|wait|requeue",
         "gpuman job has show, log, attach, wait, hold, release, update and redo: gpuman job --help"},
    Hint{"gpuman", "gctl", "gpuman gpu, reserve and quota do what gctl does"},
    Hint{"gpuman", "sacctmgr|limit|limits",
         "gpuman update JOB --memory SIZE changes a job's limit, gpuman quota set a user's"},
    Hint{"gpuman", "past|ended", "gpuman queue --all lists ended jobs, too; gpuman events what happened"},
    Hint{"gpuman", "pause|freeze|stash",
         "gpuman suspend JOB takes a job off its GPU; gpuman gpu choice pause stops the queue"},
    Hint{"gpuman", "continue|cont|unpause|unsuspend|thaw",
         "gpuman resume JOB brings a suspended job back; gpuman gpu choice resume starts the queue"},
    Hint{"gpuman", "set|edit|modify|change|renice|alter",
         "gpuman update JOB changes a job that runs, gpuman job update JOB one that waits"},
    Hint{"gpuman", "drain|undrain|allow|restrict", "gpuman gpu {} GPU"},
    Hint{"gpuman", "persistence|compute-mode|clocks|clock|power|ecc|profile|settings",
         "gpuman device shows and changes settings of GPUs: gpuman device --help"},
    Hint{"gpuman", "sweep|array", "gpuman submit has --param NAME=A,B and --array 0-9"},
    Hint{"gpuman", "acknowledge|ack", "gpuman health acknowledge GPU"},
    Hint{"gpuman", "serve|daemon|up|down|gpumand|gflowd|service|reload",
         "the daemon is gpumand, and gpuman starts one where there is none; the service: sudo systemctl "
         "start gpumand"},
    Hint{"gpuman", "check|validate|test",
         "gpuman doctor looks at the machine, gpuman config check at the configuration"},
    Hint{"gpuman", "reservation|reservations|book", "gpuman reserve create, list, get or cancel"},
    // Words behind a command.
    Hint{"gpuman device", "list|ls|get|status|info|query", "gpuman device show"},
    Hint{"gpuman device", "set|apply|update|enable|disable",
         "each setting has a command of its own: gpuman device power set 250W, gpuman device persistence on; "
         "gpuman "
         "device --help"},
    Hint{"gpuman device", "#", "gpuman device show {}"},
    Hint{"gpuman device power", "limit", "gpuman device power set 250W"},
    Hint{"gpuman device persistence", "set", "gpuman device persistence on"},
    Hint{"gpuman device compute-mode", "set", "gpuman device compute-mode exclusive-process"},
    Hint{"gpuman device ecc", "set", "gpuman device ecc on"},
    Hint{"gpuman device power", "*", "gpuman device power set {}"},
    Hint{"gpuman device clocks", "set|#", "gpuman device clocks lock --graphics min,75%"},
    Hint{"gpuman device profile", "set|use|on", "gpuman device profile apply NAME"},
    Hint{"gpuman device profile", "off|reset|remove", "gpuman device profile clear"},
    Hint{"gpuman gpu", "ls|status|info", "gpuman gpu list; gpuman info shows who has which"},
    Hint{"gpuman gpu", "disable|off|exclude|stop",
         "gpuman gpu restrict GPU keeps the queue off it; gpuman gpu drain GPU does, and gpuman run warns of "
         "it"},
    Hint{"gpuman gpu", "enable|on|include", "gpuman gpu allow GPU, gpuman gpu undrain GPU"},
    Hint{"gpuman gpu", "reset",
         "gpuman does not reset GPUs: sudo nvidia-smi --gpu-reset -i GPU, with nothing running on it"},
    Hint{"gpuman gpu", "#", "gpuman gpu show {}"},
    Hint{"gpuman job", "list|ls|ps|status",
         "gpuman queue lists the jobs; gpuman job show JOB has all of one"},
    Hint{"gpuman job", "cancel|kill|stop|rm|remove|delete", "gpuman cancel JOB"},
    Hint{"gpuman job", "logs|output|tail", "gpuman job log JOB"},
    Hint{"gpuman job", "info|get|describe", "gpuman job show JOB"},
    Hint{"gpuman job", "submit|run|start|create", "gpuman submit --gpus 1 -- COMMAND"},
    Hint{"gpuman job", "suspend|resume|move|restart", "gpuman {} JOB"},
    Hint{"gpuman job", "rerun|retry|requeue|resubmit", "gpuman job redo JOB"},
    Hint{"gpuman job", "set|edit|modify", "gpuman job update JOB"},
    Hint{"gpuman job", "*", "gpuman job show {}"},
    Hint{"gpuman share", "show|get|info|ls|list", "gpuman share status"},
    Hint{"gpuman share", "on|off|enable|disable",
         "a job shares its GPUs when it is started with --share; gpuman share status shows them"},
    Hint{"gpuman share", "pause", "gpuman share set --pause on"},
    Hint{"gpuman mig", "list|ls|status|info|get", "gpuman mig show"},
    Hint{"gpuman mig", "create|set|enable|on|split",
         "gpuman mig plan shows what a layout would change, gpuman mig apply does it"},
    Hint{"gpuman mig", "delete|destroy|disable|off|rm|remove|reset", "gpuman mig clear"},
    Hint{"gpuman mps", "show|list|ls|info", "gpuman mps status"},
    Hint{"gpuman mps", "on|enable|up", "gpuman mps start"},
    Hint{"gpuman mps", "off|disable|down|quit", "gpuman mps stop"},
    Hint{"gpuman mps", "set", "gpuman mps limit --threads 25%"},
    Hint{"gpuman mps", "kill", "gpuman mps terminate PID"},
    Hint{"gpuman reserve", "add|new|make", "gpuman reserve create"},
    Hint{"gpuman reserve", "rm|remove|delete|del", "gpuman reserve cancel ID"},
    Hint{"gpuman reserve", "show|ls|status", "gpuman reserve list; gpuman reserve get ID"},
    Hint{"gpuman quota", "add|create|new|update", "gpuman quota set"},
    Hint{"gpuman quota", "rm|delete|del|clear|unset", "gpuman quota remove"},
    Hint{"gpuman quota", "show|ls|get|status", "gpuman quota list"},
    Hint{"gpuman config", "show|get|list|edit|set|cat|path",
         "gpuman config check names the file; it is edited by hand, and systemctl reload gpumand has it read "
         "again"},
    Hint{"gpuman health", "ack|clear|reset|ignore|fix", "gpuman health acknowledge GPU"},
    Hint{"gpuman health", "show|status|list|check|#",
         "gpuman health, without a word behind it, shows all GPUs"},
    Hint{"gpuman status", "*", "gpuman job show {} has all of one job"},
    Hint{"gpuman queue", "list|ls|show|status", "gpuman queue, without a word behind it, lists the jobs"},
    Hint{"gpuman queue", "pause|resume", "gpuman gpu choice {}"},
    Hint{"gpuman queue", "cancel|kill|rm|remove|clear", "gpuman cancel JOB"},
    Hint{"gpuman queue", "*", "gpuman queue --jobs {}; gpuman job show {} has all of one job"},
    Hint{"gpuman info", "*", "gpuman gpu show {}"},
    Hint{"gpuman proclist", "#", "gpuman gpu show {} has the processes of one GPU"},
    Hint{"gpuman top", "#", "gpuman top --interval {}s"},
    Hint{"gpuman stats", "*", "gpuman stats --user {}"},
    Hint{"gpuman move", "*", "gpuman move JOB --to {}"},
    Hint{"gpuman resume", "#", "gpuman resume JOB --gpu {}"},
    Hint{"gpuman update", "*", "gpuman update JOB --memory {}"},
    Hint{"gpuman suspend", "*", "it takes one job at a time"},
    Hint{"gpuman restart", "*", "it takes one job at a time"},
    Hint{"gpuman remove", "*", "it takes one job at a time; gpuman cancel takes several"},
    Hint{"gpuman logs", "*", "it takes one job at a time"},
    // Options.
    Hint{"gpuman run", "-it|-ti|-i|-T|--tty|--terminal",
         "for a terminal: gpuman run --gpus 1 --pty -- COMMAND"},
    Hint{"gpuman run", "-n|--name|-J|--job-name", "its name is given with --tag NAME"},
    Hint{"gpuman run", "--mem|--vram|--limit|--gpu-memory|--gpu-mem|--max-mem|--memory-limit",
         "the limit on each GPU is given with --memory SIZE"},
    Hint{"gpuman run", "-G|--ngpus|--num-gpus|--n-gpus|--gres|--gpus-per-node|--gpu-count",
         "--gpus N waits in the queue for N GPUs; --gpu INDEX runs at once on this one"},
    Hint{"gpuman run", "--timeout|--time-limit|--timelimit", "--gpus N --time TIME ends it after this"},
    Hint{"gpuman run", "-e|--env|--export",
         "the job has the variables of this shell: NAME=VALUE gpuman run …"},
    Hint{"gpuman run", "-D|--cwd|--workdir|--chdir|--directory", "the job runs in this directory: cd first"},
    Hint{"gpuman run", "-o|--output|--log|--logfile",
         "gpuman logs JOB prints what it writes; gpuman submit has --output FILE"},
    Hint{"gpuman run", "--rm", "an ended job takes nothing; gpuman remove JOB forgets it"},
    Hint{"gpuman run", "-f|--foreground|--follow|--attach", "--wait shows its output, and exits as it does"},
    Hint{"gpuman run", "--background|--bg|--daemon", "it runs in the background unless --wait is given"},
    Hint{"gpuman run", "--retries|--depends|--array|--begin|--hold|--param|--dependency|--cpus|--host-memory",
         "gpuman submit has {}, for jobs of the queue"},
    Hint{"gpuman submit", "-it|-ti|-T|--tty|--pty|--terminal",
         "for a terminal: gpuman run --gpus 1 --pty -- COMMAND"},
    Hint{"gpuman submit", "--mem|--max-mem",
         "--host-memory SIZE is the machine's memory, --memory SIZE each GPU's"},
    Hint{"gpuman submit", "--vram|--gpu-mem|--limit", "the limit on each GPU is given with --memory SIZE"},
    Hint{"gpuman submit", "-G|--ngpus|--num-gpus|--n-gpus|--gpus-per-node|--gpus-per-task|--gpu-count",
         "how many GPUs is given with --gpus N"},
    Hint{"gpuman submit", "--cpus-per-task|--ntasks-per-node", "how many CPUs is given with --cpus N"},
    Hint{"gpuman submit", "-N|--nodes|--ntasks|--partition|--qos|--constraint|--nodelist",
         "a job runs on this machine; for a cluster: --to slurm --slurm-option NAME=VALUE"},
    Hint{"gpuman submit", "--wrap|--cmd", "a command for the shell is given with --command STRING"},
    Hint{"gpuman submit", "--mail-user|--mail|--email", "write to an address: --notify-mail ADDRESS"},
    Hint{"gpuman submit", "--mail-type", "--notify-on started,finished,failed,timeout,… or all"},
    Hint{"gpuman submit", "--chdir|--cwd|--workdir", "where it runs is given with --directory DIR"},
    Hint{"gpuman submit", "-A|--account", "--project NAME says what its time is counted for"},
    Hint{"gpuman submit", "--signal", "--warn USR1@60s sends a signal before the time limit"},
    Hint{"gpuman submit", "--requeue|--restart|--retry", "--retries N runs it again when it fails"},
    Hint{"gpuman submit", "--exclusive", "its GPUs are its own unless --share is given"},
    Hint{"gpuman submit", "--env|--environment", "--export all,NAME=VALUE sets variables"},
    Hint{"gpuman submit", "--after|--wait-for|--needs", "what it waits for is given with --depends JOBS"},
    Hint{"gpuman submit", "-t|--timeout|--limit-time", "the time limit is given with --time TIME"},
    Hint{"gpuman submit", "--parsable", "--json prints the job for programs"},
    Hint{"gpuman submit", "-f|--follow|--attach",
         "--wait shows its output; gpuman job log JOB -f follows it later"},
    Hint{"gpuman status", "-w|--watch|-f|--follow|-i|--interval",
         "gpuman top watches; gpuman queue --watch the queue"},
    Hint{"gpuman status", "-u|--user|--me|-l|--long|-j|--jobs",
         "gpuman queue has --user me, --jobs and --format"},
    Hint{"gpuman queue", "--me|--mine|-m", "your own jobs: gpuman queue --user me"},
    Hint{"gpuman queue", "-l|--long|--start|--wide",
         "gpuman job show JOB has everything of a job; --format chooses columns"},
    Hint{"gpuman top", "-w|--watch|-f|--follow", "it watches by itself; --once prints it once"},
    Hint{"gpuman top", "-d|--delay|-i", "--interval TIME, such as 500ms or 5s"},
    Hint{"gpuman top", "-n|-b|--batch|-1", "--once prints it once"},
    Hint{"gpuman top", "-u|--user", "--filter user:NAME; gpuman queue --user NAME lists a user's jobs"},
    Hint{"gpuman logs", "--lines|-l|--last", "the last lines: --tail N"},
    Hint{"gpuman logs", "-F", "--follow goes on until the job ends"},
    Hint{"gpuman events", "-w|--watch", "-f shows new events as they come"},
    Hint{"gpuman events", "--tail|--last|--lines", "the last events: --limit N"},
    Hint{"gpuman cancel", "--all|-a|-u|--user",
         "name the jobs: gpuman cancel 7 train 10-19; gpuman queue --user me lists yours"},
    Hint{"gpuman cancel", "-f|--force|-9|-s|--signal|-KILL",
         "it ends a job by itself: SIGTERM, and SIGKILL after its grace time"},
    Hint{"gpuman remove", "-f|--force|-y|--yes|-9",
         "it asks nothing: SIGTERM, and SIGKILL after the job's grace time"},
    Hint{"gpuman update", "--mem|--vram|--limit", "the limit on each GPU is given with --memory SIZE"},
    Hint{"gpuman update", "--time|--gpus|--depends|--begin",
         "gpuman job update JOB changes what waiting jobs ask for"},
    Hint{"gpuman device", "-i|--id|-q|--query", "gpuman device show GPU"},
    Hint{"gpuman proclist", "-w|--watch|-f|--follow", "gpuman top watches processes"},
    Hint{"gpuman health", "-w|--watch|-f|--follow", "gpuman events -f tells when health changes"},
    Hint{"gpuman", "-L|--list-gpus|-q|-l|-pm|-pl|-lgc|-i",
         "gpuman gpu list shows the GPUs, gpuman device show their settings"},
};

bool IsNumber(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

bool Fits(std::string_view words, std::string_view word, bool any_word) {
  for (std::size_t at = 0; at <= words.size();) {
    const auto end = std::min(words.find('|', at), words.size());
    const auto one = words.substr(at, end - at);
    if (one == word || (one == "#" && IsNumber(word)) || (one == "*" && any_word && !word.starts_with('-')))
      return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::span<const Hint> Hints() { return kHints; }

std::string HintFor(std::string_view path, std::string_view word, bool any_word) {
  if (word.starts_with("--")) word = word.substr(0, word.find('='));
  const auto* const hint = std::find_if(kHints.begin(), kHints.end(), [&](const Hint& one) {
    return one.path == path && Fits(one.words, word, any_word);
  });
  if (hint == kHints.end()) return {};
  std::string text(hint->text);
  for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += word.size())
    text.replace(at, 2, word);
  return text;
}

}  // namespace gpuman::cli
