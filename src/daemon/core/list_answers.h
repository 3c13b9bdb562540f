// Answers that are lists of any length: written in slices of the event loop and no faster than the client
// takes them, a few of each user at a time; the next ones wait for these. What a client that has gone asked
// for is dropped at once.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sliced_work.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

class ListAnswers {
 public:
  // Appends a little of what comes next; false: that was the end. Called again and again until its turn is
  // over.
  using Source = std::function<bool(std::string& text)>;
  // Calls what it gets with the source: at once, or later.
  using Begin = std::function<void(std::function<void(Source)>)>;

  static constexpr std::size_t kOfUser = 4;          // under way at a time
  static constexpr std::size_t kPiece = 64u << 10;   // bytes, about
  static constexpr std::size_t kAhead = 256u << 10;  // that the client has not taken

  // `work` must outlive this object, which must outlive the exchanges.
  explicit ListAnswers(base::SlicedWork& work) : work_(work) {}
  ListAnswers(const ListAnswers&) = delete;
  ListAnswers& operator=(const ListAnswers&) = delete;

  // Answers with 200 and what the source gives. `begin` is called when its turn has come.
  void Answer(const http::ExchangePtr& exchange, std::string content_type, Begin begin);

 private:
  struct List {
    http::ExchangePtr exchange;
    std::string content_type;
    Begin begin;
    Source source{};
    bool over = false;
  };
  using ListPtr = std::shared_ptr<List>;  // of its slices
  // Owns its lists until they end, or their client goes.
  struct User {
    std::vector<ListPtr> under_way{};
    std::deque<ListPtr> waiting{};
  };

  void Start(const ListPtr& list);
  void WriteSlices(const ListPtr& list);
  bool WriteSome(const ListPtr& list, const base::Turn& turn);
  void End(const ListPtr& list);

  base::SlicedWork& work_;
  std::map<uid_t, User> users_;  // who has some
};

}  // namespace gpuman::daemon
