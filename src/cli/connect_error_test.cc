#include "cli/connect_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "api/http.h"
#include "base/test_temp_dir.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const UserIdentity kAda{1000, "ada"};
const UserIdentity kBob{1001, "bob"};
const UserIdentity kRoot{0, "root"};
const std::filesystem::path kSystem = "/run/gpuman/gpumand.sock";

SocketFacts Facts(SocketState state, const char* path, const char* subject, const UserIdentity& owner,
                  const char* group = "", bool group_may = false) {
  return {path, state, subject, owner, group, group_may, false};
}

struct Case {
  const char* about;
  ErrorCode code;
  SocketFacts facts;
  UserIdentity caller;
  SocketKind kind;
  const char* says;
  const char* hints;
};

TEST(ConnectError, SaysWhoseTheSocketIsAndWhatToDo) {
  using enum SocketState;
  constexpr auto kNamed = SocketKind::kNamed;
  constexpr auto kOwn = SocketKind::kOwn;
  const auto kClosed = ErrorCode::kPermissionDenied;
  const auto kNobody = ErrorCode::kUnavailable;
  const char* const kOfAda = "/run/user/1000/gpuman/gpumand.sock";
  const char* const kShared = "/srv/lab/gpumand.sock";
  for (const auto& [about, code, facts, caller, kind, says, hints] : std::vector<Case>{
           {"another user's directory", kClosed, Facts(kHidden, kOfAda, "/run/user/1000", kAda, "ada"), kBob,
            kNamed, "its directory /run/user/1000 belongs to the user ada alone",
            "members of the group gpuman"},
           {"a socket for a group", kClosed, Facts(kSocket, kShared, kShared, kAda, "lab", true), kBob,
            kNamed, "it belongs to the user ada and the group lab", "sudo usermod -aG lab bob"},
           {"a directory for a group", kClosed, Facts(kHidden, kShared, "/srv/lab", kRoot, "lab", true), kBob,
            kNamed, "its directory /srv/lab belongs to the user root and the group lab",
            "usermod -aG lab bob"},
           {"root's alone", kClosed, Facts(kSocket, kShared, kShared, kRoot, "root"), kBob, kNamed,
            "it belongs to the user root alone", "use sudo"},
           {"the machine's", kClosed, Facts(kSocket, kSystem.c_str(), kSystem.c_str(), kRoot, "gpuman", true),
            kBob, SocketKind::kSystem, "the daemon of this machine", "sudo usermod -aG gpuman bob"},
           {"a file", kNobody, Facts(kNoSocket, "/etc/passwd", "/etc/passwd", kRoot), kBob, kNamed,
            "/etc/passwd is no socket", "/run/gpuman/gpumand.sock"},
           {"an own one that is stale", kNobody, Facts(kSocket, kShared, kShared, kBob), kBob, kNamed,
            "the daemon of bob that made this socket does not run", "gpumand --user --socket /srv/lab"},
           {"a stale one of another user", kNobody, Facts(kSocket, kShared, kShared, kAda), kBob, kNamed,
            "the daemon of ada that made this socket does not run", "ask ada to start it"},
           {"a stale one of root", kNobody, Facts(kSocket, kShared, kShared, kRoot), kBob, kNamed,
            "the daemon of root", "root starts it with: gpumand --socket /srv/lab"},
           {"the machine's, stale", kNobody, Facts(kSocket, kSystem.c_str(), kSystem.c_str(), kRoot), kBob,
            kNamed, "does not run", "sudo systemctl start gpumand"},
           {"none where one may be", kNobody, Facts(kMissing, kShared, "/srv/lab", kRoot), kRoot, kNamed,
            "nobody", "start one there: gpumand --socket /srv/lab"},
           {"none in another user's directory", kNobody, Facts(kMissing, kOfAda, "/run/user/1000", kAda),
            kRoot, kNamed, "/run/user/1000 belongs to the user ada", "leave out --socket"},
           {"XDG_RUNTIME_DIR of another user", kClosed, Facts(kHidden, kOfAda, "/run/user/1000", kAda), kBob,
            kOwn,
            "your own daemon cannot be at /run/user/1000/gpuman/gpumand.sock: /run/user/1000 belongs to the "
            "user ada",
            "unset XDG_RUNTIME_DIR, or set it to a directory of your own such as /run/user/1001"}}) {
    const auto error = ExplainConnectError({code, "nobody", {}}, facts, caller, kind, kSystem);
    EXPECT_EQ(error.code, code) << about;
    EXPECT_THAT(error.message, HasSubstr(says)) << about;
    EXPECT_THAT(error.hint, HasSubstr(hints)) << about;
  }
}

TEST(ConnectError, TellsAMemberWhoseLoginIsOlder) {
  auto facts = Facts(SocketState::kSocket, "/s", "/s", kRoot, "lab", true);
  facts.caller_joined = true;
  const auto error =
      ExplainConnectError({ErrorCode::kPermissionDenied, "", {}}, facts, kBob, SocketKind::kNamed, kSystem);
  EXPECT_THAT(error.hint, AllOf(HasSubstr("newgrp lab"), Not(HasSubstr("usermod"))));
}

TEST(ConnectError, LeavesOtherErrorsAlone) {
  const auto facts = Facts(SocketState::kSocket, "/s", "/s", kRoot);
  const base::Error overloaded{
      ErrorCode::kUnavailable, "the daemon at /s accepts no connections: it is overloaded", {}};
  EXPECT_EQ(ExplainConnectError(overloaded, facts, kBob, SocketKind::kNamed, kSystem).message,
            overloaded.message);
  const base::Error other{ErrorCode::kInternal, "connecting to /s: no memory", {}};
  EXPECT_EQ(ExplainConnectError(other, facts, kBob, SocketKind::kNamed, kSystem).message, other.message);
}

TEST(CheckOwnSocket, SocketInDirectoryOfAnotherUserIsRefused) {
  const auto facts = Facts(SocketState::kMissing, "/run/user/1000/gpuman/s", "/run/user/1000", kAda);
  EXPECT_TRUE(CheckOwnSocket(facts, kAda));
  const auto root = CheckOwnSocket(facts, kRoot);
  ASSERT_FALSE(root) << "sudo -E";
  EXPECT_THAT(root.error().message, HasSubstr("/run/user/1000 belongs to the user ada"));
  EXPECT_TRUE(CheckOwnSocket(Facts(SocketState::kMissing, "/tmp/gpuman-1000/s", "/tmp", kRoot), kAda));
}

TEST(ReadSocketFacts, StateSubjectAndOwnerOfSocketPathAreRead) {
  const base::TempDir directory;
  const auto me = ThisUser();
  const auto path = directory.path() / "a" / "b" / "s";
  auto facts = ReadSocketFacts(path, me);
  EXPECT_EQ(facts.state, SocketState::kMissing);
  EXPECT_EQ(facts.subject, directory.path());
  EXPECT_EQ(facts.owner.uid, me.uid);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
  EXPECT_EQ(ReadSocketFacts(path, me).state, SocketState::kNoSocket);
  std::filesystem::remove(path);
  const base::Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
  facts = ReadSocketFacts(path, me);
  EXPECT_EQ(facts.state, SocketState::kSocket);
  EXPECT_TRUE(facts.group_may);
  EXPECT_EQ(ReadSocketFacts("no-such-socket", me).state, SocketState::kMissing);
}

// Runs in a child process that becomes another user, which only root can do.
TEST(ReadSocketFacts, FindsTheDirectoryThatIsClosed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const base::TempDir directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  const auto socket = directory.path() / "gpuman" / "s";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(54321) != 0 || ::setuid(54321) != 0) ::_exit(2);
    const auto facts = ReadSocketFacts(socket, ThisUser());
    const bool right = facts.state == SocketState::kHidden && facts.subject == directory.path() &&
                       facts.owner.uid == 0 && !facts.group_may;
    const auto connected = api::ConnectTo(socket);
    ::_exit(right && !connected && connected.error().code == ErrorCode::kPermissionDenied ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gpuman::cli
