#include "daemon/jobs/log_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "api/types.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::milliseconds kLogPollInterval{100};
constexpr std::chrono::milliseconds kForClient{5};
constexpr std::size_t kPiece = 64u << 10;
constexpr std::size_t kPiecesAStep = 4;     // then other users have their turn
constexpr std::size_t kPiecesASearch = 16;  // likewise
constexpr std::size_t kAhead = 256u << 10;  // bytes that a slow client has not taken yet

}  // namespace

void LogStream::Start(boost::asio::io_context& loop, LogReaderPool& readers, http::ExchangePtr exchange,
                      LogRequest request, std::function<bool()> ended) {
  const std::shared_ptr<LogStream> stream(
      new LogStream(loop, readers, std::move(exchange), std::move(request), std::move(ended)));
  stream->Begin();
}

LogStream::LogStream(boost::asio::io_context& loop, LogReaderPool& readers, http::ExchangePtr exchange,
                     LogRequest request, std::function<bool()> ended)
    : timer_(loop),
      readers_(readers),
      exchange_(std::move(exchange)),
      request_(std::move(request)),
      ended_(std::move(ended)) {}

void LogStream::Begin() {
  exchange_->OnGone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->gone_ = true;
      self->timer_.cancel();
    }
  });
  Step();
}

void LogStream::Step() {
  if (gone_) return;
  if (exchange_->Unsent() > kAhead) return StepAfter(kForClient);
  // The stream asks before it reads: so it surely reads all that the job wrote before it ended.
  const bool last = !request_.follow || ended_();
  readers_.Do(
      exchange_->request().peer.uid, [self = shared_from_this()] { self->found_ = self->ReadNext(); },
      [self = shared_from_this(), last] { self->Deliver(last); });
}

void LogStream::Deliver(bool last) {
  Found found = std::exchange(found_, {});
  if (gone_) return;
  if (found.again) return StepAfter(kLogPollInterval);
  if (found.searching) return Step();
  if (found.begin)
    exchange_->BeginStream("text/plain; charset=utf-8",
                           fmt::format("{}: {}", api::kLogOffsetHeader, *found.begin));
  for (auto& piece : found.pieces) exchange_->Write(std::move(piece));
  if (!found.any && last) return exchange_->EndStream();
  found.any ? Step() : StepAfter(kLogPollInterval);
}

void LogStream::StepAfter(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->Step();
  });
}

LogStream::Found LogStream::ReadNext() {
  Found found;
  if (!begun_) {
    if (!tail_ && !Open()) {
      found.again = true;
      return found;
    }
    if (request_.tail && file_.ok()) {
      if (!tail_) tail_.emplace(file_.get(), *request_.tail);
      found.begin = tail_->Search(kPiecesASearch);
      found.searching = !found.begin;
      if (found.searching) return found;
      tail_.reset();
    }
    if (!found.begin) found.begin = request_.tail ? 0 : OffsetInFile();
    if (file_.ok()) ::lseek(file_.get(), *found.begin, SEEK_SET);
    begun_ = true;
  }
  found.any = ReadSome(found) || Rotated();
  return found;
}

// Where a reader goes on that has had the first `offset` bytes. A file that is shorter has taken the place of
// the one that it read.
off_t LogStream::OffsetInFile() const {
  struct stat status {};
  if (!file_.ok() || ::fstat(file_.get(), &status) != 0) return 0;
  const auto offset = static_cast<off_t>(request_.offset);
  return offset <= status.st_size ? offset : 0;
}

// False: the file cannot be opened now. Its user may have taken a lease on it (fcntl(2)), put a pipe in its
// place, or removed it.
bool LogStream::Open() {
  base::Fd file(::open(request_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file.ok()) return errno != EWOULDBLOCK;
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) file_ = std::move(file);
  return true;
}

bool LogStream::ReadSome(Found& found) {
  for (std::size_t i = 0; i < kPiecesAStep && file_.ok(); ++i) {
    std::string piece(kPiece, '\0');
    const ssize_t n = ::read(file_.get(), piece.data(), piece.size());
    if (n <= 0) return i > 0;
    piece.resize(static_cast<std::size_t>(n));
    found.pieces.push_back(std::move(piece));
  }
  return file_.ok();
}

// True: another file is at the path now, and the stream continues with that.
bool LogStream::Rotated() {
  struct stat mine {
  }, there{};
  if (::stat(request_.path.c_str(), &there) != 0) return false;
  if (file_.ok() && ::fstat(file_.get(), &mine) == 0 && mine.st_ino == there.st_ino) return false;
  const ino_t before = file_.ok() ? mine.st_ino : 0;
  (void)Open();
  return file_.ok() && ::fstat(file_.get(), &mine) == 0 && mine.st_ino != before;
}

}  // namespace gpuman::daemon
