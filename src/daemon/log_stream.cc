#include "daemon/log_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "api/types.h"
#include "base/file.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::milliseconds kTurn{1};
constexpr std::size_t kReadSize = 64u << 10;
constexpr std::size_t kPiecesAStep = 16;  // then others have their turn
constexpr std::size_t kAhead = 1u << 20;  // of a client that takes its time
constexpr std::chrono::milliseconds kForClient{5};

}  // namespace

TailSearch::TailSearch(int fd, std::size_t lines) : fd_(fd), lines_(lines) {
  struct stat status {};
  if (::fstat(fd, &status) == 0) end_ = at_ = status.st_size;
}

std::optional<off_t> TailSearch::Look(std::size_t pieces) {
  if (lines_ == 0) return end_;
  std::string piece;
  for (; at_ > 0 && pieces > 0; --pieces) {
    const off_t begin = std::max<off_t>(0, at_ - static_cast<off_t>(kReadSize));
    piece.resize(static_cast<std::size_t>(at_ - begin));
    const ssize_t n = ::pread(fd_, piece.data(), piece.size(), begin);
    if (n <= 0) return 0;
    for (off_t i = static_cast<off_t>(n) - 1; i >= 0; --i) {
      // The end of the last line begins no further line.
      if (piece[static_cast<std::size_t>(i)] == '\n' && begin + i + 1 != end_ && ++seen_ == lines_)
        return begin + i + 1;
    }
    at_ = begin;
  }
  return at_ > 0 ? std::nullopt : std::optional<off_t>(0);
}

void LogStream::Start(boost::asio::io_context& loop, http::ExchangePtr exchange, LogRequest request,
                      std::function<bool()> ended) {
  const std::shared_ptr<LogStream> stream(
      new LogStream(loop, std::move(exchange), std::move(request), std::move(ended)));
  stream->Begin();
}

LogStream::LogStream(boost::asio::io_context& loop, http::ExchangePtr exchange, LogRequest request,
                     std::function<bool()> ended)
    : timer_(loop), exchange_(std::move(exchange)), request_(std::move(request)), ended_(std::move(ended)) {}

void LogStream::Begin() {
  exchange_->OnGone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->gone_ = true;
      self->timer_.cancel();
    }
  });
  if (auto file = base::OpenFile(request_.path, O_RDONLY)) {
    file_ = std::move(*file);
    if (request_.tail) tail_.emplace(file_.get(), *request_.tail);
  }
  if (!tail_) BeginAt(file_.ok() ? static_cast<off_t>(request_.offset) : 0);
  Step();
}

void LogStream::BeginAt(off_t begin) {
  if (file_.ok()) ::lseek(file_.get(), begin, SEEK_SET);
  exchange_->BeginStream("text/plain; charset=utf-8", fmt::format("{}: {}", api::kLogOffsetHeader, begin));
}

bool LogStream::SendSome() {
  std::string piece(kReadSize, '\0');
  for (std::size_t i = 0; i < kPiecesAStep; ++i) {
    const ssize_t n = file_.ok() ? ::read(file_.get(), piece.data(), piece.size()) : 0;
    if (n <= 0) return i > 0;
    exchange_->Write(piece.substr(0, static_cast<std::size_t>(n)));
  }
  return true;
}

// The file at the path is another one now: go on with that.
bool LogStream::Rotated() {
  struct stat mine {
  }, there{};
  if (::stat(request_.path.c_str(), &there) != 0) return false;
  if (file_.ok() && ::fstat(file_.get(), &mine) == 0 && mine.st_ino == there.st_ino) return false;
  auto file = base::OpenFile(request_.path, O_RDONLY);
  if (!file) return false;
  file_ = std::move(*file);
  return true;
}

void LogStream::Step() {
  if (gone_) return;
  if (tail_) {
    const auto begin = tail_->Look(kPiecesAStep);
    if (!begin) return StepAfter(kTurn);
    tail_.reset();
    BeginAt(*begin);
  }
  if (exchange_->Unsent() > kAhead) return StepAfter(kForClient);
  // Asked before reading: what was written before the end is then read for sure.
  const bool last = !request_.follow || ended_();
  const bool more = SendSome() || Rotated();
  if (!more && last) return exchange_->EndStream();
  StepAfter(more ? kTurn : kLook);
}

void LogStream::StepAfter(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->Step();
  });
}

}  // namespace gpuman::daemon
