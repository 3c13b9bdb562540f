#include "cli/hints.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace gpuman::cli {
namespace {

constexpr std::array kHints{
    // Commands.
    HintRule{"gpuman", "kill|stop|end|terminate|abort|qdel|scancel|gcancel",
             "to stop a job: gpuman cancel JOB; to stop it and forget it: gpuman remove JOB"},
    HintRule{
        "gpuman", "ps|jobs|job-list|list|ls|ll|show",
        "gpuman status shows GPUs and jobs, gpuman queue what runs and waits, gpuman proclist every process "
        "on the "
        "GPUs"},
    HintRule{"gpuman", "rm|del|delete|forget|unregister", "gpuman remove JOB stops a job and forgets it"},
    HintRule{"gpuman", "watch|monitor|htop|nvtop|nvitop|gpustat|dashboard",
             "gpuman top watches GPUs and jobs, gpuman queue --watch the queue"},
    HintRule{"gpuman", "nvidia-smi|smi|dmon|pmon",
             "gpuman status shows GPUs and jobs, gpuman proclist their processes, gpuman top watches them"},
    HintRule{"gpuman", "gpus|cards", "gpuman gpu list shows the GPUs, gpuman info who has them"},
    HintRule{"gpuman", "squeue|qstat|gqueue", "gpuman queue lists the jobs that run and wait"},
    HintRule{"gpuman", "sbatch|qsub|batch|gbatch|enqueue|add|create",
             "gpuman submit --gpus 1 SCRIPT queues a job"},
    HintRule{"gpuman", "srun|salloc|shell|bash",
             "gpuman run --gpus 1 --pty -- bash waits for a GPU and gives a shell"},
    HintRule{"gpuman", "exec|start|launch|python|python3",
             "gpuman run --tag NAME --memory 8GiB -- COMMAND starts a job at once; gpuman submit queues one"},
    HintRule{"gpuman", "sinfo|ginfo|nodes|free", "gpuman info shows the GPUs as the queue sees them"},
    HintRule{"gpuman", "sacct|sreport|gstats|usage|report",
             "gpuman stats shows what was used; gpuman queue --all ended jobs"},
    HintRule{"gpuman", "scontrol|gjob|hold|release|redo|attach|wait|requeue",
             "gpuman job has show, log, attach, wait, hold, release, update and redo: gpuman job --help"},
    HintRule{"gpuman", "gctl", "gpuman gpu, reserve and quota do what gctl does"},
    HintRule{"gpuman", "sacctmgr|limit|limits",
             "gpuman update JOB --memory SIZE changes a job's limit, gpuman quota set a user's"},
    HintRule{"gpuman", "past|ended", "gpuman queue --all lists ended jobs, too; gpuman events what happened"},
    HintRule{"gpuman", "pause|freeze|stash",
             "gpuman suspend JOB takes a job off its GPU; gpuman gpu choice pause stops the queue"},
    HintRule{"gpuman", "continue|cont|unpause|unsuspend|thaw",
             "gpuman resume JOB brings a suspended job back; gpuman gpu choice resume starts the queue"},
    HintRule{"gpuman", "set|edit|modify|change|renice|alter",
             "gpuman update JOB changes a job that runs, gpuman job update JOB one that waits"},
    HintRule{"gpuman", "drain|undrain|allow|restrict", "gpuman gpu {} GPU"},
    HintRule{"gpuman", "persistence|compute-mode|clocks|clock|power|ecc|profile|settings",
             "gpuman device shows and changes settings of GPUs: gpuman device --help"},
    HintRule{"gpuman", "sweep|array", "gpuman submit has --param NAME=A,B and --array 0-9"},
    HintRule{"gpuman", "acknowledge|ack", "gpuman health acknowledge GPU"},
    HintRule{"gpuman", "serve|daemon|up|down|gpumand|gflowd|service|reload",
             "the daemon is gpumand, and gpuman starts one where there is none; the service: sudo systemctl "
             "start gpumand"},
    HintRule{"gpuman", "check|validate|test",
             "gpuman doctor looks at the machine, gpuman config check at the configuration"},
    HintRule{"gpuman", "reservation|reservations|book", "gpuman reserve create, list, get or cancel"},
    // Words behind a command.
    HintRule{"gpuman device", "list|ls|get|status|info|query", "gpuman device show"},
    HintRule{
        "gpuman device", "set|apply|update|enable|disable",
        "each setting has a command of its own: gpuman device power set 250W, gpuman device persistence on; "
        "gpuman "
        "device --help"},
    HintRule{"gpuman device", "#", "gpuman device show {}"},
    HintRule{"gpuman device power", "limit", "gpuman device power set 250W"},
    HintRule{"gpuman device persistence", "set", "gpuman device persistence on"},
    HintRule{"gpuman device compute-mode", "set", "gpuman device compute-mode exclusive-process"},
    HintRule{"gpuman device ecc", "set", "gpuman device ecc on"},
    HintRule{"gpuman device power", "*", "gpuman device power set {}"},
    HintRule{"gpuman device clocks", "set|#", "gpuman device clocks lock --graphics min,75%"},
    HintRule{"gpuman device profile", "set|use|on", "gpuman device profile apply NAME"},
    HintRule{"gpuman device profile", "off|reset|remove", "gpuman device profile clear"},
    HintRule{"gpuman gpu", "ls|status|info", "gpuman gpu list; gpuman info shows who has which"},
    HintRule{
        "gpuman gpu", "disable|off|exclude|stop",
        "gpuman gpu restrict GPU keeps the queue off it; gpuman gpu drain GPU does, and gpuman run warns of "
        "it"},
    HintRule{"gpuman gpu", "enable|on|include", "gpuman gpu allow GPU, gpuman gpu undrain GPU"},
    HintRule{"gpuman gpu", "reset",
             "gpuman does not reset GPUs: sudo nvidia-smi --gpu-reset -i GPU, with nothing running on it"},
    HintRule{"gpuman gpu", "#", "gpuman gpu show {}"},
    HintRule{"gpuman job", "list|ls|ps|status",
             "gpuman queue lists the jobs; gpuman job show JOB has all of one"},
    HintRule{"gpuman job", "cancel|kill|stop|rm|remove|delete", "gpuman cancel JOB"},
    HintRule{"gpuman job", "logs|output|tail", "gpuman job log JOB"},
    HintRule{"gpuman job", "info|get|describe", "gpuman job show JOB"},
    HintRule{"gpuman job", "submit|run|start|create", "gpuman submit --gpus 1 -- COMMAND"},
    HintRule{"gpuman job", "suspend|resume|move|restart", "gpuman {} JOB"},
    HintRule{"gpuman job", "rerun|retry|requeue|resubmit", "gpuman job redo JOB"},
    HintRule{"gpuman job", "set|edit|modify", "gpuman job update JOB"},
    HintRule{"gpuman job", "*", "gpuman job show {}"},
    HintRule{"gpuman share", "show|get|info|ls|list", "gpuman share status"},
    HintRule{"gpuman share", "on|off|enable|disable",
             "a job shares its GPUs when it is started with --share; gpuman share status shows them"},
    HintRule{"gpuman share", "pause", "gpuman share set --pause on"},
    HintRule{"gpuman mig", "list|ls|status|info|get", "gpuman mig show"},
    HintRule{"gpuman mig", "create|set|enable|on|split",
             "gpuman mig plan shows what a layout would change, gpuman mig apply does it"},
    HintRule{"gpuman mig", "delete|destroy|disable|off|rm|remove|reset", "gpuman mig clear"},
    HintRule{"gpuman mps", "show|list|ls|info", "gpuman mps status"},
    HintRule{"gpuman mps", "on|enable|up", "gpuman mps start"},
    HintRule{"gpuman mps", "off|disable|down|quit", "gpuman mps stop"},
    HintRule{"gpuman mps", "set", "gpuman mps limit --threads 25%"},
    HintRule{"gpuman mps", "kill", "gpuman mps terminate PID"},
    HintRule{"gpuman reserve", "add|new|make", "gpuman reserve create"},
    HintRule{"gpuman reserve", "rm|remove|delete|del", "gpuman reserve cancel ID"},
    HintRule{"gpuman reserve", "show|ls|status", "gpuman reserve list; gpuman reserve get ID"},
    HintRule{"gpuman quota", "add|create|new|update", "gpuman quota set"},
    HintRule{"gpuman quota", "rm|delete|del|clear|unset", "gpuman quota remove"},
    HintRule{"gpuman quota", "show|ls|get|status", "gpuman quota list"},
    HintRule{
        "gpuman config", "show|get|list|edit|set|cat|path",
        "gpuman config check names the file; it is edited by hand, and systemctl reload gpumand has it read "
        "again"},
    HintRule{"gpuman health", "ack|clear|reset|ignore|fix", "gpuman health acknowledge GPU"},
    HintRule{"gpuman health", "show|status|list|check|#",
             "gpuman health, without a word behind it, shows all GPUs"},
    HintRule{"gpuman status", "*", "gpuman job show {} has all of one job"},
    HintRule{"gpuman queue", "list|ls|show|status", "gpuman queue, without a word behind it, lists the jobs"},
    HintRule{"gpuman queue", "pause|resume", "gpuman gpu choice {}"},
    HintRule{"gpuman queue", "cancel|kill|rm|remove|clear", "gpuman cancel JOB"},
    HintRule{"gpuman queue", "*", "gpuman queue --jobs {}; gpuman job show {} has all of one job"},
    HintRule{"gpuman info", "*", "gpuman gpu show {}"},
    HintRule{"gpuman proclist", "#", "gpuman gpu show {} has the processes of one GPU"},
    HintRule{"gpuman top", "#", "gpuman top --interval {}s"},
    HintRule{"gpuman stats", "*", "gpuman stats --user {}"},
    HintRule{"gpuman move", "*", "gpuman move JOB --to {}"},
    HintRule{"gpuman resume", "#", "gpuman resume JOB --gpu {}"},
    HintRule{"gpuman update", "*", "gpuman update JOB --memory {}"},
    HintRule{"gpuman suspend", "*", "it takes one job at a time"},
    HintRule{"gpuman restart", "*", "it takes one job at a time"},
    HintRule{"gpuman remove", "*", "it takes one job at a time; gpuman cancel takes several"},
    HintRule{"gpuman logs", "*", "it takes one job at a time"},
    // Options.
    HintRule{"gpuman run", "-it|-ti|-dit|-dti|-itd|-idt|-tid|-tdi|-i|-T|--tty|--terminal",
             "for a terminal: gpuman run --gpus 1 --pty -- COMMAND"},
    HintRule{"gpuman run", "-n|--name|-J|--job-name", "its name is given with --tag NAME"},
    HintRule{"gpuman run", "--mem|--vram|--limit|--gpu-memory|--gpu-mem|--max-mem|--memory-limit",
             "the limit on each GPU is given with --memory SIZE"},
    HintRule{"gpuman run", "-G|--ngpus|--num-gpus|--n-gpus|--gres|--gpus-per-node|--gpu-count",
             "--gpus N waits in the queue for N GPUs; --gpu INDEX runs at once on this one"},
    HintRule{"gpuman run", "--timeout|--time-limit|--timelimit", "--gpus N --time TIME ends it after this"},
    HintRule{"gpuman run", "-e|--env|--export",
             "the job has the variables of this shell: NAME=VALUE gpuman run …"},
    HintRule{"gpuman run", "-D|--cwd|--workdir|--chdir|--directory",
             "the job runs in this directory: cd first"},
    HintRule{"gpuman run", "-o|--output|--log|--logfile",
             "gpuman logs JOB prints what it writes; gpuman submit has --output FILE"},
    HintRule{"gpuman run", "--rm", "an ended job takes nothing; gpuman remove JOB forgets it"},
    HintRule{"gpuman run", "-f|--foreground|--follow|--attach",
             "--wait shows its output, and exits as it does"},
    HintRule{"gpuman run", "--background|--bg|--daemon", "it runs in the background unless --wait is given"},
    HintRule{"gpuman run",
             "--retries|--depends|--array|--begin|--hold|--param|--dependency|--cpus|--host-memory",
             "gpuman submit has {}, for jobs of the queue"},
    HintRule{"gpuman submit", "-it|-ti|-dit|-dti|-itd|-idt|-tid|-tdi|-T|--tty|--pty|--terminal",
             "for a terminal: gpuman run --gpus 1 --pty -- COMMAND"},
    HintRule{"gpuman submit", "--mem|--max-mem",
             "--host-memory SIZE is the machine's memory, --memory SIZE each GPU's"},
    HintRule{"gpuman submit", "--vram|--gpu-mem|--limit",
             "the limit on each GPU is given with --memory SIZE"},
    HintRule{"gpuman submit", "-G|--ngpus|--num-gpus|--n-gpus|--gpus-per-node|--gpus-per-task|--gpu-count",
             "how many GPUs is given with --gpus N"},
    HintRule{"gpuman submit", "--cpus-per-task|--ntasks-per-node", "how many CPUs is given with --cpus N"},
    HintRule{"gpuman submit", "-N|--nodes|--ntasks|--partition|--qos|--constraint|--nodelist",
             "a job runs on this machine; for a cluster: --to slurm --slurm-option NAME=VALUE"},
    HintRule{"gpuman submit", "--wrap|--cmd", "a command for the shell is given with --command STRING"},
    HintRule{"gpuman submit", "--mail-user|--mail|--email", "write to an address: --notify-mail ADDRESS"},
    HintRule{"gpuman submit", "--mail-type", "--notify-on started,finished,failed,timeout,… or all"},
    HintRule{"gpuman submit", "--chdir|--cwd|--workdir", "where it runs is given with --directory DIR"},
    HintRule{"gpuman submit", "-A|--account", "--project NAME says what its time is counted for"},
    HintRule{"gpuman submit", "--signal", "--warn USR1@60s sends a signal before the time limit"},
    HintRule{"gpuman submit", "--requeue|--restart|--retry", "--retries N runs it again when it fails"},
    HintRule{"gpuman submit", "--exclusive", "its GPUs are its own unless --share is given"},
    HintRule{"gpuman submit", "--env|--environment", "--export all,NAME=VALUE sets variables"},
    HintRule{"gpuman submit", "--after|--wait-for|--needs", "what it waits for is given with --depends JOBS"},
    HintRule{"gpuman submit", "-t|--timeout|--limit-time", "the time limit is given with --time TIME"},
    HintRule{"gpuman submit", "--parsable", "--json prints the job for programs"},
    HintRule{"gpuman submit", "-f|--follow|--attach",
             "--wait shows its output; gpuman job log JOB -f follows it later"},
    HintRule{"gpuman status", "-w|--watch|-f|--follow|-i|--interval",
             "gpuman top watches; gpuman queue --watch the queue"},
    HintRule{"gpuman status", "-u|--user|--me|-l|--long|-j|--jobs",
             "gpuman queue has --user me, --jobs and --format"},
    HintRule{"gpuman queue", "--me|--mine|-m", "your own jobs: gpuman queue --user me"},
    HintRule{"gpuman queue", "-l|--long|--start|--wide",
             "gpuman job show JOB has everything of a job; --format chooses columns"},
    HintRule{"gpuman top", "-w|--watch|-f|--follow", "it watches by itself; --once prints it once"},
    HintRule{"gpuman top", "-d|--delay|-i", "--interval TIME, such as 500ms or 5s"},
    HintRule{"gpuman top", "-n|-b|--batch|-1", "--once prints it once"},
    HintRule{"gpuman top", "-u|--user", "--filter user:NAME; gpuman queue --user NAME lists a user's jobs"},
    HintRule{"gpuman logs", "--lines|-l|--last", "the last lines: --tail N"},
    HintRule{"gpuman logs", "-F", "--follow goes on until the job ends"},
    HintRule{"gpuman events", "-w|--watch", "-f shows new events as they come"},
    HintRule{"gpuman events", "--tail|--last|--lines", "the last events: --limit N"},
    HintRule{"gpuman cancel", "--all|-a|-u|--user",
             "name the jobs: gpuman cancel 7 train 10-19; gpuman queue --user me lists yours"},
    HintRule{"gpuman cancel", "-f|--force|-9|-s|--signal|-KILL",
             "it ends a job by itself: SIGTERM, and SIGKILL after its grace time"},
    HintRule{"gpuman remove", "-f|--force|-y|--yes|-9",
             "it asks nothing: SIGTERM, and SIGKILL after the job's grace time"},
    HintRule{"gpuman update", "--mem|--vram|--limit", "the limit on each GPU is given with --memory SIZE"},
    HintRule{"gpuman update", "--tag|-n|--name|--rename",
             "--tag says which job; gpuman job update JOB --name NAME gives one that waits another name"},
    HintRule{"gpuman update", "--time|--gpus|--depends|--begin",
             "gpuman job update JOB changes what waiting jobs ask for"},
    HintRule{"gpuman device", "-i|--id|-q|--query", "gpuman device show GPU"},
    HintRule{"gpuman device", "--power|--power-limit|-pl", "gpuman device power set 250W"},
    HintRule{"gpuman proclist", "-w|--watch|-f|--follow", "gpuman top watches processes"},
    HintRule{"gpuman health", "-w|--watch|-f|--follow", "gpuman events -f tells when health changes"},
    HintRule{"gpuman", "-L|--list-gpus|-q|-l|-pm|-pl|-lgc|-i",
             "gpuman gpu list shows the GPUs, gpuman device show their settings"},
};

bool Fits(std::string_view words, std::string_view word, bool any_word) {
  for (std::size_t at = 0; at <= words.size();) {
    const auto end = std::min(words.find('|', at), words.size());
    const auto one = words.substr(at, end - at);
    if (one == word || (any_word && one == "#" && base::AreDigits(word)) ||
        (any_word && one == "*" && !word.starts_with('-')))
      return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::span<const HintRule> Hints() { return kHints; }

std::string HintFor(std::string_view path, std::string_view word, bool any_word) {
  if (word.starts_with("--")) word = word.substr(0, word.find('='));
  const auto* const hint = std::find_if(kHints.begin(), kHints.end(), [&](const HintRule& one) {
    return one.path == path && Fits(one.words, word, any_word);
  });
  if (hint == kHints.end()) return {};
  std::string text(hint->text);
  for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += word.size())
    text.replace(at, 2, word);
  return text;
}

}  // namespace gpuman::cli
