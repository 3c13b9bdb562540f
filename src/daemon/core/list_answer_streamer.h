// Answers that are lists of any length. The event loop writes them in slices, and no faster than the client
// takes them. A few lists of each party are under way at a time; the party's next lists wait for these. When
// a client has gone, its list is dropped at once.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sliced_work.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

class ListAnswerStreamer {
 public:
  // Appends the next small part of the list; false: that was the end. The loop calls it again and again until
  // its turn is over, so a part is at most what may be made between two looks at the clock.
  using Source = std::function<bool(std::string& text)>;
  // Calls its argument with the source: at once, or later.
  using Begin = std::function<void(std::function<void(Source)>)>;

  static constexpr std::size_t kOfParty = 4;         // under way at a time
  static constexpr std::size_t kPiece = 64u << 10;   // bytes that are written at a time, at most
  static constexpr std::size_t kAhead = 256u << 10;  // bytes that the client has not taken yet

  // `work` must outlive this object, which must outlive the exchanges.
  explicit ListAnswerStreamer(base::SlicedWork& work) : work_(work) {}
  ListAnswerStreamer(const ListAnswerStreamer&) = delete;
  ListAnswerStreamer& operator=(const ListAnswerStreamer&) = delete;

  // Answers with 200 and the text of the source. `begin` is called when the list's turn has come.
  void Answer(const http::ExchangePtr& exchange, std::string content_type, Begin begin);

 private:
  struct List {
    http::ExchangePtr exchange;
    std::string content_type;
    Begin begin;
    Source source{};
    std::string text{};  // what the source has made; the bytes before `at` are written
    std::size_t at = 0;
    bool more = true;  // the source has more
    bool over = false;

    std::size_t Left() const { return text.size() - at; }
    std::string TakePiece();
  };
  using ListPtr = std::shared_ptr<List>;  // shared by the slices of the list
  // Owns the party's lists until they end, or their client goes.
  struct Lists {
    std::vector<ListPtr> under_way{};
    std::deque<ListPtr> waiting{};
  };

  void Start(const ListPtr& list);
  void WriteSlices(const ListPtr& list);
  bool WriteSome(const ListPtr& list, const base::TimeSlice& turn);
  void End(const ListPtr& list);

  base::SlicedWork& work_;
  std::map<http::Party, Lists> parties_;  // those that have lists
};

}  // namespace gpuman::daemon
