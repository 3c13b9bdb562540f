// The queue's commands and the programs under gflow's names, against a server with prepared answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "api/queue_json.h"
#include "api/queue_rows.h"
#include "api/test_server.h"
#include "base/file.h"
#include "base/test_temp_dir.h"
#include "cli/app.h"
#include "cli/compat/gflow/dialect.h"
#include "cli/compat/gflow/programs.h"
#include "cli/queue/listing.h"
#include "cli/queue/update.h"

namespace gpuman::cli::queue {
namespace {

using api::TestServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

template <typename Call>
Outcome Captured(Call call) {
  std::ostringstream out;
  std::ostringstream err;
  Outcome outcome;
  outcome.status = call(ProgramContext{out, err, {}, {}});
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

Outcome Gpuman(const TestServer& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--socket", server.socket().string()});
  return Captured([&](const ProgramContext& context) { return RunCli("gpuman", arguments, context); });
}

Outcome Gflow(const TestServer* server, std::string_view program, const std::vector<std::string>& arguments) {
  const std::string socket = server != nullptr ? server->socket().string() : "/nonexistent/s";
  std::ostringstream out;
  std::ostringstream err;
  const ProgramContext context{out, err, {}, {}, [&](const char* name) -> std::optional<std::string> {
                                 return std::string_view(name) == "GPUMAN_SOCKET" ? std::optional(socket)
                                                                                  : std::nullopt;
                               }};
  Outcome outcome;
  outcome.status = RunCli(program, arguments, context);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

std::string BodyOf(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }

constexpr std::string_view kQueued =
    R"({"jobs":[{"id":7,"tag":"train","state":"queued","reason":"resources","reason_detail":"no GPU is free"}]})";
constexpr std::string_view kJob =
    R"({"id":7,"tag":"train","user":"ada","state":"queued","reason":"resources","command":["x"],
        "queue":{"gpus":{"count":2,"model":"h200"},"retries":{"count":3,"delay_s":5},"depends":{"list":[{"job":"3"}]}}})";
constexpr std::string_view kInfo =
    R"({"gpus":[{"index":0,"uuid":"GPU-a","model":"H200","state":"idle"},
                {"index":1,"uuid":"GPU-b","model":"H200","state":"allocated","jobs":[5],"tags":["train-resnet"]},
                {"index":2,"uuid":"GPU-c","model":"H200","state":"unmanaged",
                 "processes":[{"pid":77,"user":"bob","name":"python","memory":1073741824,"age_s":60}]}],
        "settings":{"choice":"sequential","paused":false,"allowed":["GPU-a","GPU-b"]}})";

TEST(Submit, SendsTheCommandAndSaysWhatBecameOfIt) {
  const TestServer server({TestServer::Answer(201, kQueued)});
  const auto outcome = Gpuman(server, {"submit", "--gpus", "2", "--name", "train", "--", "true", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "job 7 'train' is queued: no GPU is free\n");
  const auto request = api::Decode<api::SubmitRequest>(BodyOf(server.requests().at(0)));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_THAT(server.requests().at(0), StartsWith("POST /v1/submissions "));
  EXPECT_THAT(request->jobs.at(0).command, ElementsAre("true", "--json"));
  EXPECT_EQ(request->jobs.at(0).gpus.count, 2);
  EXPECT_EQ(request->environment.at("PATH"), ::getenv("PATH"));
}

TEST(Submit, TakesACommandWithoutDashes) {
  const TestServer server({TestServer::Answer(201, kQueued)});
  EXPECT_EQ(Gpuman(server, {"submit", "-g1", "sh", "-c", "true", "--gpus", "3", "--", "x"}).status, 0);
  const auto request = api::Decode<api::SubmitRequest>(BodyOf(server.requests().at(0)));
  EXPECT_THAT(request->jobs.at(0).command, ElementsAre("sh", "-c", "true", "--gpus", "3", "--", "x"));
  EXPECT_EQ(request->jobs.at(0).gpus.count, 1);
}

TEST(Submit, PrintsTheJobOrAllOfThemAsJson) {
  const TestServer one({TestServer::Answer(201, kQueued)});
  EXPECT_THAT(Gpuman(one, {"submit", "--json", "true"}).out,
              StartsWith(R"({"id":7,"tag":"train","state":"queued")"));
  const TestServer array(
      {TestServer::Answer(201, R"({"jobs":[{"id":7,"tag":"a","state":"queued","tasks":[7,8]}]})")});
  EXPECT_THAT(Gpuman(array, {"submit", "--json", "--array", "0-1", "true"}).out,
              HasSubstr(R"("tasks":[7,8]})"));
  const TestServer two({TestServer::Answer(
      201, R"({"jobs":[{"id":7,"tag":"a","state":"queued"},{"id":8,"tag":"b","state":"queued"}]})")});
  EXPECT_THAT(Gpuman(two, {"submit", "--json", "--param", "x=1,2", "echo", "{x}"}).out,
              StartsWith(R"({"jobs":[{"id":7)"));
}

TEST(Submit, ExitsWithSixWhereItCanNeverRun) {
  const TestServer server({TestServer::Answer(
      422,
      R"({"error":{"code":"unsatisfiable","message":"9 GPUs are asked for, and there are 2","hint":null}})")});
  const auto outcome = Gpuman(server, {"submit", "--gpus", "9", "true"});
  EXPECT_EQ(outcome.status, 6);
  EXPECT_THAT(outcome.err, HasSubstr("there are 2"));
}

TEST(Submit, SaysWhatADryRunWouldDo) {
  const TestServer server(
      {TestServer::Answer(200, R"({"jobs":[{"id":0,"tag":"t","state":"starting","gpus":["GPU-a"]}]})"),
       TestServer::Answer(200, R"({"gpus":[{"index":3,"uuid":"GPU-a"}]})")});
  const auto outcome = Gpuman(server, {"submit", "--dry-run", "--name=t", "true"});
  EXPECT_EQ(outcome.out, "job 't' would start at once on GPU 3\n");
  EXPECT_THAT(server.requests().at(0), HasSubstr(R"("dry_run":true)"));
}

TEST(Submit, SaysHowManyTasksAnArrayOfADryRunHas) {
  const TestServer server({TestServer::Answer(
      200, R"({"jobs":[{"id":0,"tag":"t","state":"queued","reason_detail":"no GPU is free"}]})")});
  EXPECT_EQ(Gpuman(server, {"submit", "--dry-run", "--array=0-6:2", "--name=t", "true"}).out,
            "array 't' of 4 tasks would be queued: no GPU is free\n");
}

TEST(Submit, NamesTheJobsOfADryRunByTheirLines) {
  const base::TempDir dir;
  const auto file = (dir.path() / "jobs").string();
  ASSERT_TRUE(base::ReplaceFile(file, "--name a -- true\n\ntrue\n--array 0-1 --depends @ -- true\n"));
  const TestServer server({TestServer::Answer(
      200, R"({"jobs":[{"id":0,"tag":"a","state":"starting"},{"id":0,"tag":"","state":"starting"},)"
           R"({"id":0,"tag":"","state":"queued","reason_detail":"waits for jobs[1] to finish"}]})")});
  EXPECT_EQ(Gpuman(server, {"submit", "--dry-run", "--jobs", file}).out,
            "job 'a' would start at once\nthe job of " + file +
                ":3 would start at once\nthe array of 2 tasks of " + file +
                ":4 would be queued: waits for the job of " + file + ":3 to finish\n");
  const TestServer sweep({TestServer::Answer(
      200, R"({"jobs":[{"id":0,"tag":"","state":"starting"},{"id":0,"tag":"","state":"starting"}]})")});
  EXPECT_EQ(Gpuman(sweep, {"submit", "--dry-run", "--param", "x=1:2", "--", "echo", "{x}"}).out,
            "the job 'echo 1' would start at once\nthe job 'echo 2' would start at once\n");
}

TEST(Submit, NamesTheOptionThatWasMeant) {
  const TestServer server({TestServer::Answer(500, "")});
  const auto outcome = Gpuman(server, {"submit", "--retires", "3", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("unknown option '--retires'"), HasSubstr("did you mean --retries?")));
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST(SubmitWait, ShowsTheOutputAndExitsAsTheJobDid) {
  const TestServer server(
      {TestServer::Answer(201, kQueued), TestServer::Answer(200, kJob),
       TestServer::Answer(200, "hello\n", "text/plain"),
       TestServer::Answer(200, R"({"id":7,"tag":"train","state":"failed","exit_code":3})")});
  const auto outcome = Gpuman(server, {"submit", "--wait", "true"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "hello\n");
}

TEST(RunGpus, RunWithGpusSubmitsToQueueAndWaits) {
  const TestServer server(
      {TestServer::Answer(201, kQueued), TestServer::Answer(200, kJob),
       TestServer::Answer(200, "hello\n", "text/plain"),
       TestServer::Answer(200, R"({"id":7,"tag":"train","state":"finished","exit_code":0})")});
  const auto outcome = Gpuman(server, {"run", "--gpus", "1", "--memory", "1G", "--", "true"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_THAT(outcome.err, HasSubstr("no GPU is free"));
  const auto request = api::Decode<api::SubmitRequest>(BodyOf(server.requests().at(0)));
  EXPECT_EQ(request->jobs.at(0).gpus.count, 1);
  EXPECT_EQ(request->jobs.at(0).memory->bytes, base::GiB(1));
  EXPECT_FALSE(request->jobs.at(0).name);
  EXPECT_FALSE(request->new_tags);
  const TestServer taken({TestServer::Answer(
      409,
      R"({"error":{"code":"already_exists","message":"the tag t is taken by job 3, which is running"}})")});
  const auto refused = Gpuman(taken, {"run", "--gpus", "1", "--tag", "t", "--", "true"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("the tag t is taken by job 3"));
  EXPECT_TRUE(api::Decode<api::SubmitRequest>(BodyOf(taken.requests().at(0)))->new_tags);
  EXPECT_EQ(Gpuman(server, {"run", "--pty", "--tag", "t", "--", "true"}).status, 2);
  EXPECT_EQ(Gpuman(server, {"run", "--gpus", "1", "--restart", "always", "--", "true"}).status, 2);
}

TEST(Run, MisuseErrorShowsRunCommandToType) {
  const TestServer server({TestServer::Answer(500, "")});
  for (const auto& [arguments, says] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--tag", "a", "--"}, "gpuman run --tag NAME --memory 8GiB -- COMMAND"},
           {{"--tag", "a", "--", ""}, "gpuman run --tag NAME --memory 8GiB -- COMMAND"},
           {{"--gpus", "1", "--"}, "gpuman run --gpus 1 -- COMMAND"},
           {{"--gpus", "1", "--tag", "", "--", "true"}, "--tag: the tag is empty"},
           {{"--gpus", "1", "--tag", "7", "--", "true"}, "--tag: '7' could be"},
           {{"--gpus", "1", "--tag", "-i", "--", "true"}, "--tag: '-i' begins with '-'"}}) {
    auto typed = arguments;
    typed.insert(typed.begin(), "run");
    const auto outcome = Gpuman(server, typed);
    EXPECT_EQ(outcome.status, 2) << says;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(says), Not(HasSubstr("gpuman submit")), Not(HasSubstr("--name"))));
  }
  EXPECT_THAT(server.requests(), IsEmpty());
}

api::QueueRow Row(std::int64_t id, const char* tag, spec::JobState state, const char* reason,
                  const char* gpus) {
  api::QueueRow row;
  row.id = id;
  row.tag = tag;
  row.user = "ada";
  row.state = state;
  row.reason = reason;
  row.gpus = gpus;
  row.gpus_asked = 1;
  return row;
}

std::string Rows() {
  std::string text = api::QueueRowTitles();
  auto running = Row(5, "a", spec::JobState::kRunning, "", "0,1");
  running.started_at = base::SystemClock().Wall();
  api::AppendQueueRow(text, running);
  auto task = Row(9, "b", spec::JobState::kQueued, "held_by_user", "");
  task.array_id = 8;
  task.array_task = 1;
  api::AppendQueueRow(text, task);
  return text;
}

TEST(Queue, ShowsWhereACancelledJobRan) {
  std::string text = api::QueueRowTitles();
  api::AppendQueueRow(text, Row(5, "a", spec::JobState::kCancelled, "cancelled", "0,1"));
  api::AppendQueueRow(text, Row(6, "b", spec::JobState::kCancelled, "dependency_never", ""));
  const TestServer server({TestServer::Answer(200, text, "text/tab-separated-values")});
  EXPECT_EQ(Gpuman(server, {"queue", "-a", "-f", "jobid,nodelist"}).out,
            "JOBID  NODELIST(REASON)\n"
            "5      0,1\n"
            "6      (dependency_never)\n");
  EXPECT_EQ(Gflow(&server, "gqueue", {"-a", "-f", "jobid,nodelist"}).out,
            "JOBID  NODELIST(REASON)\n"
            "5      (Cancelled)\n"
            "6      (DependencyNever)\n");
}

TEST(Queue, ListsJobsInTheColumnsThatAreAskedFor) {
  const TestServer server({TestServer::Answer(200, Rows(), "text/tab-separated-values")});
  EXPECT_EQ(Gpuman(server, {"queue", "-f", "jobid,name,state,gpus,nodelist"}).out,
            "JOBID  NAME  STATE    GPUS  NODELIST(REASON)\n"
            "5      a     running     1  0,1\n"
            "8_1    b     queued      1  (held_by_user)\n");
  EXPECT_THAT(Gpuman(server, {"queue", "-s", "PD,running", "-u", "ada,bob", "-j", "1-3"}).out,
              StartsWith("JOBID"));
  EXPECT_THAT(
      server.requests().at(1),
      StartsWith(
          "GET /v1/queue/rows?states=queued%2Crunning&users=ada%2Cbob&jobs=1%2C2%2C3&limit=5000&after=0 "));
  EXPECT_THAT(
      Gpuman(server, {"queue", "-o", "csv"}).out,
      AllOf(StartsWith("id,array_id,array_task,name,"), HasSubstr("\n5,,,a,ada,,running,,128,1,\"0,1\",")));
  EXPECT_THAT(Gpuman(server, {"queue", "-o", "yaml"}).out,
              AllOf(StartsWith("jobs:\n  - id: 5\n"), HasSubstr("    name: \"b\"\n"),
                    HasSubstr("    project: null\n")));
  EXPECT_EQ(Gpuman(server, {"queue", "-s", "asleep"}).status, 2);
  EXPECT_EQ(Gpuman(server, {"queue", "-r", "beauty"}).status, 2);
}

// The paths of the requests that a command sends to a daemon with two pages: a full one of `most` jobs, then
// a job.
template <typename Page>
std::vector<std::string> AskedForPages(const std::vector<std::string>& arguments, std::int64_t most,
                                       Page page) {
  // Every later request gets an answer with one job.
  const TestServer server({page(std::int64_t{1}, most), page(most + 1, most + 1)});
  const auto outcome = Gpuman(server, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\n1 "), HasSubstr(fmt::format("\n{} ", most)),
                                 HasSubstr(fmt::format("\n{} ", most + 1))));
  std::vector<std::string> paths;
  for (const auto& request : server.requests()) {
    const auto from = request.find(' ') + 1;
    paths.push_back(request.substr(from, request.find(' ', from) - from));
  }
  return paths;
}

TEST(Queue, IsAskedForInPagesAndNeverWhole) {
  EXPECT_THAT(AskedForPages({"queue", "-a", "-f", "jobid,name"}, 5000,
                            [](std::int64_t first, std::int64_t last) {
                              std::string text = api::QueueRowTitles();
                              for (auto id = first; id <= last; ++id)
                                api::AppendQueueRow(text, Row(id, "a", spec::JobState::kQueued, "", ""));
                              return TestServer::Answer(200, text, "text/tab-separated-values");
                            }),
              ElementsAre(AllOf(StartsWith("/v1/queue/rows?"), EndsWith("limit=5000&after=0")),
                          AllOf(StartsWith("/v1/queue/rows?"), EndsWith("limit=5000&after=5000"))));
  const auto jobs = [](std::int64_t first, std::int64_t last) {
    std::string text = R"({"gpus":[],"jobs":[)";
    for (auto id = first; id <= last; ++id)
      text +=
          fmt::format(R"({}{{"id":{},"tag":"a","state":"queued","queue":{{}}}})", id == first ? "" : ",", id);
    return TestServer::Answer(200, text + "]}");
  };
  EXPECT_THAT(AskedForPages({"queue", "--tree", "-f", "jobid,name"}, 1000, jobs),
              ElementsAre(AllOf(StartsWith("/v1/queue?"), EndsWith("limit=1000&after=0")),
                          AllOf(StartsWith("/v1/queue?"), EndsWith("limit=1000&after=1000")), "/v1/gpus"));
}

TEST(Queue, ShowsWhatWaitsForWhatAsATree) {
  const TestServer server({TestServer::Answer(200, R"({"jobs":[{"id":1,"tag":"prep","state":"running"},
         {"id":2,"tag":"train","state":"queued","queue":{"depends":{"list":[{"job":"1"}]}}},
         {"id":3,"tag":"eval","state":"queued","queue":{"depends":{"list":[{"job":"1"},{"job":"2"}]}}},
         {"id":4,"tag":"other","state":"queued","queue":{"depends":{"list":[]}}}]})"),
                           TestServer::Answer(200, R"({"gpus":[]})")});
  EXPECT_EQ(Gpuman(server, {"queue", "--tree", "-f", "JOBID,NAME"}).out,
            "JOBID  NAME\n1      prep\n└─2    train\n  └─3  eval\n4      other\n");
}

TEST(Queue, PrintsJobsAsJson) {
  const TestServer server({TestServer::Answer(200, R"({"jobs":[]})")});
  EXPECT_EQ(Gpuman(server, {"queue", "--json"}).out, "{\"jobs\":[]}\n");
}

TEST(Cancel, SaysOfEachJobWhatBecameOfIt) {
  const TestServer server({TestServer::Answer(200, R"({"jobs":[{"job":"7","id":7,"state":"cancelled"},
      {"job":"nine","id":0,"state":null,"error":"there is no job 'nine'","error_code":"not_found",
       "error_hint":"say which by its id"}]})")});
  const auto outcome = Gpuman(server, {"cancel", "7", "nine"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(outcome.out, "Job 7 cancelled.\n");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("nine: there is no job"), HasSubstr("say which by its id")));
  EXPECT_THAT(server.requests().at(0), HasSubstr(R"({"jobs":["7","nine"]})"));
  const TestServer array({TestServer::Answer(
      200, R"({"jobs":[{"job":"a","id":7,"state":"cancelled"},{"job":"a","id":8,"state":"cancelled"}]})")});
  EXPECT_EQ(Gpuman(array, {"cancel", "a"}).out, "Job 7 (a) cancelled: 2 tasks.\n");
  const TestServer chain({TestServer::Answer(200, R"({"jobs":[{"job":"7","id":7,"state":"cancelled"}],
      "dependents":[{"id":8,"tag":"b","state":"queued","depends_on":7,"cancelled":true},
                    {"id":9,"tag":"c","state":"queued","depends_on":7,"cancelled":false}]})")});
  EXPECT_EQ(Gpuman(chain, {"cancel", "7"}).out,
            "Job 7 cancelled.\nJob 8 (b) waited for job 7 and is cancelled too.\n");
}

// Columns are only added at the end: scripts may count them.
TEST(QueueRecords, MarkAStartThatIsAGuess) {
  auto guess = Row(7, "a", spec::JobState::kQueued, "resources", "");
  guess.estimated_start = *base::ParseIso8601("2031-01-01T10:00:00Z");
  auto estimate = guess;
  guess.estimate_presumed = 1;
  std::string text = api::QueueRowTitles();
  api::AppendQueueRow(text, guess);
  api::AppendQueueRow(text, estimate);
  api::AppendQueueRow(text, Row(9, "c", spec::JobState::kHeld, "held_by_user", ""));
  const TestServer server({TestServer::Answer(200, text, "text/tab-separated-values")});
  const auto csv = Gpuman(server, {"queue", "-o", "csv"});
  EXPECT_THAT(csv.out, HasSubstr(",ended_at,estimated_start,estimate_presumed\n"));
  EXPECT_THAT(csv.out, HasSubstr(",2031-01-01T10:00:00.000Z,true\n"));
  EXPECT_THAT(csv.out, HasSubstr(",2031-01-01T10:00:00.000Z,false\n"));
  EXPECT_THAT(csv.out, HasSubstr(",,\n"));
  const auto yaml = Gpuman(server, {"queue", "-o", "yaml"}).out;
  EXPECT_THAT(yaml, HasSubstr("\n    estimate_presumed: true\n"));
  EXPECT_THAT(yaml, HasSubstr("\n    estimate_presumed: false\n"));
  EXPECT_THAT(yaml, HasSubstr("\n    estimate_presumed: null\n"));
}

TEST(JobUpdate, ChangesPartsAndKeepsTheRest) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const auto outcome = Gpuman(
      server, {"job", "update", "7", "--gpus", "4", "--retries=1", "--time", "none", "--priority", "9"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(BodyOf(server.requests().at(1)),
            R"({"priority":9,"queue":{"gpus":{"count":4,"model":"h200"},"time_limit_s":null,)"
            R"("retries":{"count":1,"delay_s":5,"on_exit_codes":[]}}})");
  EXPECT_EQ(Gpuman(server, {"job", "update", "7"}).status, 2);
  EXPECT_EQ(Gpuman(server, {"job", "update", "7", "--cpus", "0"}).status, 2);
}

TEST(JobUpdate, TakesTheOptionsOfSubmit) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const auto outcome = Gpuman(server, {"job", "update", "7", "--cpus", "8", "--conda-env", "none", "--output",
                                       "%j.log", "--no-preemptible", "--preload", "--device-profile", "p"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(BodyOf(server.requests().at(1)),
            R"({"queue":{"cpus":8,"conda_env":null,"stdout":"%j.log","preemptible":false,"preload":true,)"
            R"("device_profile":"p"}})");
  EXPECT_EQ(Gpuman(server, {"job", "update", "7", "--mps"}).status, 2) << "that is for `submit` alone";
}

TEST(JobUpdate, TakesWarningGroupAndReceiversInParts) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const auto sends = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"job", "update", "7"});
    const auto outcome = Gpuman(server, options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return BodyOf(server.requests().back());
  };
  EXPECT_EQ(sends({"--warn", "TERM@90s"}), R"({"queue":{"warn_before_s":90,"warn_signal":"TERM"}})");
  EXPECT_EQ(sends({"--warn", "none"}), R"({"queue":{"warn_before_s":null,"warn_signal":null}})");
  EXPECT_EQ(sends({"--notify-mail", "a@b", "--notify-mail", "c@d,e@f", "--notify-on", "job_completed"}),
            R"({"queue":{"notify":{"mails":["a@b","c@d","e@f"],"on":["finished"]}}})");
  EXPECT_EQ(sends({"--notify-url", "none"}), R"({"queue":{"notify":{"webhooks":[]}}})");
  EXPECT_EQ(sends({"--group", "g", "--max-concurrent", "none", "--no-auto-cancel"}),
            R"({"queue":{"group":"g","max_concurrent":null,"auto_cancel":false}})");
  EXPECT_EQ(
      sends({"--auto-cancel", "--depends", "8"}),
      R"({"queue":{"auto_cancel":true,"depends":{"mode":"all","list":[{"kind":"afterok","job":"8"}]}}})");
  const auto refused = Gpuman(server, {"job", "update", "7", "--notify-on", "ended"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--notify-on: 'ended' is none of started, finished, "));
}

TEST(JobUpdate, ChangesWhatIsNotOfTheQueueToo) {
  const TestServer server({TestServer::Answer(200, kJob)});
  ASSERT_EQ(Gpuman(server, {"job", "update", "7", "--soft", "1GiB", "--weight", "2", "--grace", "5s"}).status,
            0);
  EXPECT_EQ(BodyOf(server.requests().at(1)), R"({"soft":1073741824,"weight":2.0,"grace":5})");
  ASSERT_EQ(Gpuman(server, {"job", "update", "7", "--soft", "none"}).status, 0);
  EXPECT_EQ(BodyOf(server.requests().back()), R"({"soft":null})");
  EXPECT_EQ(Gpuman(server, {"job", "update", "7", "--weight", "0"}).status, 2);
}

TEST(JobUpdate, MemoryThatIsChosenIsAnOptionOfItsOwn) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const auto sends = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"job", "update", "7"});
    EXPECT_EQ(Gpuman(server, options).status, 0);
    return BodyOf(server.requests().back());
  };
  EXPECT_EQ(sends({"--memory", "auto"}), R"({"queue":{"memory_auto":true}})");
  EXPECT_EQ(sends({"--memory", "1GiB", "--memory", "auto"}), R"({"queue":{"memory_auto":true}})");
  EXPECT_EQ(sends({"--memory", "auto", "--memory", "1GiB"}), R"({"memory":1073741824})");
  EXPECT_EQ(sends({"--memory", "none"}), R"({"memory":null})");
  for (const char* const command : {"update", "restart"}) {
    const auto refused = Gpuman(server, {command, "7", "--memory", "auto"});
    EXPECT_EQ(refused.status, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("gpuman job update JOB --memory auto")) << command;
  }
}

TEST(JobUpdate, ReplacesTheExitCodesThatARetryIsFor) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const auto sent = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"job", "update", "7"});
    EXPECT_EQ(Gpuman(server, options).status, 0);
    return BodyOf(server.requests().back());
  };
  EXPECT_EQ(sent({"--retry-on", "1,75", "--retry-on", "9"}),
            R"({"queue":{"retries":{"count":3,"delay_s":5,"on_exit_codes":[1,75,9]}}})");
  EXPECT_EQ(sent({"--retry-on", "none"}),
            R"({"queue":{"retries":{"count":3,"delay_s":5,"on_exit_codes":[]}}})");
  EXPECT_EQ(Gpuman(server, {"job", "update", "7", "--retry-on", "256"}).status, 2);
}

TEST(JobUpdate, HasEachNameOfAnOptionOnce) {
  for (const auto* dialect : {&kGpuman, &gflow::kDialect})
    for (const auto what : {UpdatePurpose::kUpdate, UpdatePurpose::kRedo}) {
      JobUpdateSettings settings;
      std::set<std::string> names;
      for (const auto& option : UpdateOptions(settings, *dialect, what, {}))
        for (const auto& name : NamesOf(option)) EXPECT_TRUE(names.insert(name).second) << name;
    }
}

TEST(JobShow, OptionsOfTheSubmissionAreShown) {
  const TestServer server(
      {TestServer::Answer(200, R"({"id":7,"tag":"t","state":"queued","queue":{"time_limit_s":90,
           "asked":{"time_limit_s":90,"cpus":4,"host_memory":1073741824,"soft":"50%","preemptible":true,
                    "stdout":"a.log","device_profile":"quiet","mps_threads":25,
                    "begin":"2099-01-01T00:00:00Z"}}})"),
       TestServer::Answer(200, R"({"gpus":[]})")});
  const auto shown = Gpuman(server, {"job", "show", "7"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* const line : {"Time limit      1m30s\n", "CPUs            4\n", "Host memory     1GiB\n",
                                 "Soft            50%\n", "Preemptible     yes\n", "Output          a.log\n",
                                 "Device profile  quiet\n", "MPS threads (%) 25\n", "Begin           2"})
    EXPECT_THAT(shown.out, HasSubstr(line));
}

TEST(JobShow, RequestedGpusAndDependenciesAreShown) {
  const TestServer server({TestServer::Answer(200, kJob), TestServer::Answer(200, R"({"gpus":[]})")});
  EXPECT_THAT(Gpuman(server, {"job", "show", "7"}).out,
              AllOf(HasSubstr("GPUs asked      2, model h200\n"), HasSubstr("After           afterok 3\n")));
}

TEST(JobShow, SaysWhatAWaitingJobIsInFrontBy) {
  const TestServer server(
      {TestServer::Answer(
           200,
           R"({"id":7,"tag":"t","state":"queued","queue":{"advantage":{"priority_s":-900,"fair_share_s":9000,"short_job_s":86399}}})"),
       TestServer::Answer(200, R"({"gpus":[]})")});
  EXPECT_THAT(Gpuman(server, {"job", "show", "7"}).out,
              HasSubstr("In front        as if it had waited 2h30m longer for its fair share, 23h59m longer "
                        "for being short, 15m less for its priority\n"));
}

TEST(Stats, ShowsTheFairShareOfEach) {
  const TestServer server({TestServer::Answer(
      200,
      R"({"by":"user","rows":[{"name":"ann","fair_share":{"entitled":0.375,"used":0.6,"factor":0.415}}],"total":{}})")});
  EXPECT_THAT(Gpuman(server, {"stats"}).out,
              AllOf(HasSubstr("SHARE  USED  FAIR"), HasSubstr("  38%   60%  0.4")));
}

TEST(Stats, HaveAColumnOfCostsWhereAPriceIsSet) {
  const TestServer server({TestServer::Answer(200, R"({"by":"day","currency":"EUR","total":{},"rows":[
      {"name":"2026-11-29","energy_j":3600000,"cost":12.5},{"name":"2026-11-30"}]})")});
  const auto shown = Gpuman(server, {"stats", "--by", "day"}).out;
  EXPECT_THAT(shown,
              AllOf(StartsWith("DAY "), HasSubstr("COST EUR\n"), HasSubstr("1.00kWh"), HasSubstr("12.50\n")));
  const auto csv = Gpuman(server, {"stats", "--by", "day", "-o", "csv"}).out;
  EXPECT_THAT(csv, AllOf(StartsWith("day,jobs,"), HasSubstr(",cost,currency,run_median_s,"),
                         HasSubstr(",12.5,EUR,,,,0,,,\n"), HasSubstr(",,EUR,,,,0,,,\n")));
}

TEST(Stats, ByNameTellTimesAndUtilizationOfPastRuns) {
  const auto answer =
      TestServer::Answer(200, R"({"by":"name","total":{},"rows":[{"name":"train","jobs":14,"runs":14,
      "peak":{"runs":14,"median":1073741824,"p95":2147483648,"most":3221225472},
      "run_time":{"runs":14,"median_s":3600,"p95_s":7200.5,"most_s":90000},
      "utilization":{"runs":12,"median":62.5,"p95":91.2,"most":97}}]})");
  const TestServer server({answer, answer});
  const auto shown = Gpuman(server, {"stats", "--by", "name"}).out;
  EXPECT_THAT(shown, MatchesRegex("NAME .* PEAK MEDIAN +95% +MOST +OF RUNS\ntrain .* 1GiB +2GiB +3GiB +14\n\n"
                                  "NAME +TIME MEDIAN +95% +MOST +OF RUNS +UTIL MEDIAN +95% +MOST +OF RUNS\n"
                                  "train +01:00:00 +02:00:00 +1-01:00:00 +14 +62% +91% +97% +12\n"));
  for (std::size_t at = 0; at < shown.size();) {
    const auto end = shown.find('\n', at);
    EXPECT_LE(end - at, 100U) << shown.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_THAT(Gpuman(server, {"stats", "--by", "name", "-o", "csv"}).out,
              HasSubstr(",3600,7200.5,90000,12,62.5,91.2,97\n"));
}

TEST(JobRelease, ReleaseAtATimeSetsTheBeginFirst) {
  const TestServer server({TestServer::Answer(200, kJob)});
  EXPECT_EQ(Gpuman(server, {"job", "release", "7", "--at", "2026-12-01T08:00Z"}).status, 0);
  EXPECT_THAT(server.requests().at(0), HasSubstr(R"({"queue":{"begin":"2026-12-01T08:00:00.000Z"}})"));
  EXPECT_THAT(server.requests().at(1), StartsWith("POST /v1/jobs/7/release "));
}

TEST(JobLog, FirstOptionPrintsTheFirstLines) {
  const TestServer server({TestServer::Answer(200, "a\nb\nc\n", "text/plain")});
  EXPECT_EQ(Gpuman(server, {"job", "log", "7", "--first", "2"}).out, "a\nb\n");
}

TEST(JobHold, GoesOnAfterAnError) {
  const TestServer server(
      {TestServer::Answer(404, R"({"error":{"code":"not_found","message":"no","hint":null}})"),
       TestServer::Answer(200, R"({"jobs":[]})"), TestServer::Answer(200, kJob)});
  const auto outcome = Gpuman(server, {"job", "hold", "6,7"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.out, StartsWith("job 7 'train' is queued"));
}

TEST(Status, ShowsThatAQueuedJobHasNoGpu) {
  const TestServer server({TestServer::Answer(
      200,
      R"({"gpus":[{"index":0,"uuid":"GPU-a"}],"jobs":[{"id":7,"tag":"t","state":"queued","gpus":[],"queue":{}}]})")});
  EXPECT_THAT(Gpuman(server, {"status"}).out, AllOf(HasSubstr("none"), Not(HasSubstr("  all "))));
}

TEST(Info, ShowsWhatKeepsEachGpu) {
  const TestServer server({TestServer::Answer(200, kInfo)});
  EXPECT_THAT(Gpuman(server, {"info"}).out,
              AllOf(HasSubstr("5 (train-resnet)"), HasSubstr("GPU 2: pid 77 of bob, python, 1GiB, for 1m"),
                    HasSubstr("The queue uses only GPU 0,1.")));
}

TEST(Info, SaysThatAllGpusAreRestricted) {
  const TestServer server({TestServer::Answer(
      200, R"({"gpus":[{"index":0,"uuid":"GPU-a"}],"settings":{"choice":"sequential","allowed":[]}})")});
  EXPECT_THAT(Gpuman(server, {"info"}).out, HasSubstr("The queue uses no GPU: all are restricted"));
}

// The daemon has the list, and other users may change it at the same time.
TEST(GpuAllow, SendsTheChangeAndNotTheWholeList) {
  const TestServer server(
      {TestServer::Answer(200, R"({"choice":"sequential"})"), TestServer::Answer(200, kInfo),
       TestServer::Answer(200, R"({"reservations":[]})"),
       TestServer::Answer(200, R"({"choice":"sequential"})"), TestServer::Answer(200, kInfo),
       TestServer::Answer(200, R"({"reservations":[]})"),
       TestServer::Answer(404, R"({"error":{"code":"not_found","message":"no GPU 9"}})")});
  EXPECT_EQ(Gpuman(server, {"gpu", "restrict", "1,3"}).status, 0);
  EXPECT_EQ(BodyOf(server.requests().at(0)), R"({"restrict":["1","3"]})");
  EXPECT_EQ(Gpuman(server, {"gpu", "allow", "0:1", "GPU-a"}).status, 0);
  EXPECT_EQ(BodyOf(server.requests().at(3)), R"({"allow":["0:1","GPU-a"]})");
  EXPECT_EQ(Gpuman(server, {"gpu", "allow", "9"}).status, 4);
}

TEST(Quota, SetTakesExactlyOneSubjectAndAValue) {
  const TestServer server({TestServer::Answer(
      200, R"({"subject":"user","name":"ada","limits":{"gpus":4},"used":{"gpus":1,"running_jobs":1}})")});
  EXPECT_EQ(Gpuman(server, {"quota", "set", "--user", "ada", "--gpus", "4", "--gpu-hours", "none"}).status,
            0);
  EXPECT_THAT(server.requests().at(0),
              AllOf(StartsWith("PUT /v1/quotas/user/ada "), HasSubstr(R"({"gpus":4,"gpu_hours":null})")));
  EXPECT_EQ(Gpuman(server, {"quota", "set", "--user", "ada", "--default-user", "--gpus", "4"}).status, 2);
  EXPECT_EQ(Gpuman(server, {"quota", "set", "--user", "ada"}).status, 2);
  EXPECT_EQ(Gpuman(server, {"quota", "set", "--user", "ada", "--shares", "0"}).status, 2);
  EXPECT_THAT(Gpuman(server, {"quota", "set", "--user", "ada", "--shares", "2"}).out, HasSubstr("SHARES"));
  EXPECT_EQ(BodyOf(server.requests().back()), R"({"shares":2.0})");
}

TEST(Reserve, RefusesAZoneThatThereIsNot) {
  const TestServer server({TestServer::Answer(200, "{}")});
  const auto outcome = Gpuman(server, {"reserve", "create", "--user", "ada", "--gpus", "1", "--start",
                                       "14:00", "--duration", "2h", "--timezone", "No/Where"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'No/Where' is not a time zone"));
}

TEST(Reserve, UnknownReservationErrorSaysThatCancelledOnesAreNotListed) {
  const TestServer server({TestServer::Answer(200, R"({"reservations":[]})")});
  const auto outcome = Gpuman(server, {"reserve", "get", "3"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.err, HasSubstr("a cancelled one is not"));
}

// --- gflow's names

TEST(Ginfo, HasGflowsColumns) {
  const TestServer server({TestServer::Answer(200, kInfo)});
  EXPECT_EQ(Gflow(&server, "ginfo", {}).out,
            "PARTITION  GPUS  NODES  STATE      JOB(REASON)\n"
            "gpu        1     0      idle\n"
            "gpu        1     1      allocated  5 (train-resnet)\n"
            "gpu        1     2      allocated  (Unmanaged)\n");
}

TEST(Gqueue, HasGflowsColumnsStatesAndReasons) {
  const TestServer server({TestServer::Answer(200, Rows(), "text/tab-separated-values")});
  EXPECT_EQ(
      Gflow(&server, "gqueue", {"-s", "Running,Queued", "-f", "JOBID,NAME,ST,NODES,NODELIST(REASON)"}).out,
      "JOBID  NAME  ST  NODES  NODELIST(REASON)\n"
      "5      a     R       1  0,1\n"
      "8_1    b     PD      1  (JobHeldUser)\n");
  EXPECT_THAT(server.requests().at(0), HasSubstr("states=starting%2Crunning%2Cstopping%2Cqueued"));
  EXPECT_THAT(Gflow(&server, "gqueue", {"-o", "json", "-u", "all"}).out,
              StartsWith(R"({"total":2,"timestamp":)"));
  EXPECT_THAT(server.requests().at(1), Not(HasSubstr("users=")));
}

TEST(Gbatch, SubmitsAndSaysItAsGflowDoes) {
  const TestServer server({TestServer::Answer(201, kQueued)});
  const auto outcome =
      Gflow(&server, "gbatch", {"--gpus", "1", "--shared", "--gpu-memory", "20G", "true", "--lr", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "Submitted batch job 7 (train)\n");
  const auto request = api::Decode<api::SubmitRequest>(BodyOf(server.requests().at(0)));
  EXPECT_THAT(request->jobs.at(0).command, ElementsAre("true", "--lr", "1"));
  EXPECT_EQ(request->jobs.at(0).memory->bytes, base::GiB(20));
}

TEST(Gbatch, PrintsTheJobAsJson) {
  const TestServer server({TestServer::Answer(201, kQueued)});
  EXPECT_THAT(Gflow(&server, "gbatch", {"--json", "--gpus", "1", "true"}).out,
              StartsWith(R"({"id":7,"tag":"train","state":"queued")"));
}

// In gflow, too, a conda environment may be called "none".
TEST(Gjob, NoneIsTheNameOfACondaEnvironment) {
  const TestServer server({TestServer::Answer(200, kJob)});
  ASSERT_EQ(Gflow(&server, "gjob", {"update", "7", "-e", "none"}).status, 0);
  EXPECT_EQ(BodyOf(server.requests().back()), R"({"queue":{"conda_env":"none"}})");
  EXPECT_EQ(Gflow(&server, "gjob", {"update", "7", "-t", "none"}).status, 2);
  EXPECT_EQ(Gflow(&server, "gjob", {"update", "7", "-m", "none"}).status, 2);
  ASSERT_EQ(Gflow(&server, "gjob", {"update", "7", "--clear-conda-env"}).status, 0);
  EXPECT_EQ(BodyOf(server.requests().back()), R"({"queue":{"conda_env":null}})");
}

TEST(Gctl, ShowsAndRestrictsGpus) {
  const TestServer server({TestServer::Answer(200, kInfo)});
  EXPECT_EQ(Gflow(&server, "gctl", {"show-gpus"}).out,
            "0\tavailable\n1\tin_use\n2\tin_use\trestricted\tUnmanaged\n");
  const TestServer setter({TestServer::Answer(200, kInfo),
                           TestServer::Answer(200, R"({"allowed":["GPU-a","GPU-c"]})"),
                           TestServer::Answer(200, kInfo)});
  const auto outcome = Gflow(&setter, "gctl", {"set-gpus", "0,2"});
  EXPECT_EQ(outcome.out, "GPU restriction set: only GPU 0,2 is used from now on.\n");
  EXPECT_EQ(BodyOf(setter.requests().at(1)), R"({"allowed":["GPU-a","GPU-c"]})");
}

TEST(Gctl, RefusesGpusThatAreNotThereAndChangesNothing) {
  const TestServer server({TestServer::Answer(200, kInfo)});
  const auto outcome = Gflow(&server, "gctl", {"set-gpus", "0,2,7"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("there is no GPU 7 on this machine; nothing was changed"));
  EXPECT_EQ(server.requests().size(), 1u) << "it only asked";
}

TEST(Gctl, PrintsWhatTheDaemonAnsweredAsJson) {
  const auto json = [](const std::string& answer, const std::vector<std::string>& arguments) {
    const TestServer server({TestServer::Answer(200, answer)});
    auto typed = arguments;
    typed.emplace_back("--json");
    const auto outcome = Gflow(&server, "gctl", typed);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(json(R"({"choice":"random"})", {"set-gpus", "all"}), HasSubstr(R"("choice":"random")"));
  EXPECT_THAT(json(std::string(kInfo), {"show-gpus"}), StartsWith(R"({"gpus":[{"index":0,)"));
  EXPECT_THAT(json(R"({"id":3,"gpu":"0","pid":9})", {"gpu-process", "ignore", "--gpu", "0", "--pid", "9"}),
              StartsWith(R"({"id":3,)"));
  EXPECT_THAT(json(std::string(kJob), {"set-limit", "7", "2"}), StartsWith(R"({"id":7,"tag":"train")"));
}

TEST(Gctl, WithoutACommandListsTheCommands) {
  const auto outcome = Gflow(nullptr, "gctl", {});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  for (const char* const command :
       {"set-gpus", "show-gpus", "gpu-process", "set-limit", "reserve", "quota", "completion"})
    EXPECT_THAT(outcome.err, HasSubstr(std::string("\n  ") + command + " "));
}

TEST(Gflowd, TellsProgramsWhetherTheDaemonRuns) {
  const TestServer server(
      {TestServer::Answer(200, R"({"version":"1.2","api":1,"pid":42,"user_mode":true})")});
  for (const char* const command : {"status", "up"})
    EXPECT_EQ(Gflow(&server, "gflowd", {command, "--json"}).out,
              "{\"running\":true,\"pid\":42,\"version\":\"1.2\",\"user_mode\":true}\n");
  EXPECT_EQ(Gflow(nullptr, "gflowd", {"status", "--json"}).out,
            "{\"running\":false,\"pid\":null,\"version\":null,\"user_mode\":null}\n");
}

TEST(Nvsharectl, PrintsTheSettingsAsJson) {
  const TestServer server(
      {TestServer::Answer(200, R"({"settings":{"policy":"fair","quantum_max":30},"gpus":[]})")});
  const auto outcome = Gflow(&server, "nvsharectl", {"-T", "30", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith(R"({"settings":{"policy":"fair")"), HasSubstr(R"("quantum_max":30)")));
}

TEST(Gflowd, UpWithAllocationStrategySetsIt) {
  const TestServer server({TestServer::Answer(200, R"({"choice":"random"})")});
  EXPECT_EQ(Gflow(&server, "gflowd", {"up", "--gpu-allocation-strategy", "random"}).out,
            "gflowd is already running.\nOf several free GPUs it takes: random.\n");
  EXPECT_EQ(BodyOf(server.requests().back()), R"({"choice":"random"})");
  EXPECT_EQ(Gflow(&server, "gflowd", {"up", "--gpu-allocation-strategy", "best"}).status, 2);
}

TEST(GflowNames, AnswerMisuseWithTwoAndWhatToDo) {
  for (const auto& [program, arguments, says] :
       std::vector<std::tuple<const char*, std::vector<std::string>, const char*>>{
           {"gqueue", {"--stats", "R"}, "unknown option '--stats'"},
           {"gctl", {"set-gps", "0"}, "did you mean 'set-gpus'?"},
           {"gctl", {"set-gpus"}, "GPUS is required"},
           {"gcancel", {}, "JOB is required"},
           {"ginfo", {"x"}, "unexpected argument 'x'"},
           {"gjob", {"show"}, "JOB is required"},
           {"gbatch", {"--time", "soon", "true"}, "--time: 'soon' is not a time"},
           {"gqueue", {"completion", "tcsh"}, "'tcsh' is not one of bash, zsh, fish"}}) {
    const auto outcome = Gflow(nullptr, program, arguments);
    EXPECT_EQ(outcome.status, 2) << program << says;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << program;
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(GflowNames, HaveHelpVersionsAndCompletion) {
  for (const char* program : {"gbatch", "gqueue", "ginfo", "gjob", "gcancel", "gctl", "gstats", "gflowd"}) {
    EXPECT_TRUE(gflow::IsProgram(program));
    EXPECT_THAT(Gflow(nullptr, program, {"--help"}).out, HasSubstr(std::string("Usage: ") + program));
    EXPECT_THAT(Gflow(nullptr, program, {"--version"}).out, StartsWith(std::string(program) + " (gpuman "));
    EXPECT_THAT(Gflow(nullptr, program, {"completion", "bash"}).out,
                HasSubstr(std::string("complete -F _") + program));
  }
  EXPECT_FALSE(gflow::IsProgram("gpuman"));
  EXPECT_THAT(Gflow(nullptr, "gjob", {"update", "--help"}).out, HasSubstr("--time-limit"));
  EXPECT_THAT(Gflow(nullptr, "gctl", {"__complete", "res"}).out, HasSubstr("reserve\t"));
  EXPECT_THAT(Gflow(nullptr, "gctl", {"__complete", "reserve", "cr"}).out, StartsWith("create\t"));
  EXPECT_THAT(Gflow(nullptr, "gqueue", {"__complete", "--sta"}).out, StartsWith("--states\t"));
}

}  // namespace
}  // namespace gpuman::cli::queue
