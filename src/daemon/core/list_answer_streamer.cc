#include "daemon/core/list_answer_streamer.h"

#include <algorithm>
#include <utility>

namespace gpuman::daemon {

void ListAnswerStreamer::Answer(const http::ExchangePtr& exchange, std::string content_type, Begin begin) {
  const auto list = std::make_shared<List>(List{exchange, std::move(content_type), std::move(begin)});
  Lists& lists = parties_[exchange->request().party];
  lists.waiting.push_back(list);
  exchange->OnGone([this, weak = std::weak_ptr(list)] {
    if (const auto gone = weak.lock()) End(gone);
  });
  if (list->over || lists.under_way.size() >= kOfParty) return;
  lists.waiting.pop_back();
  Start(list);
}

void ListAnswerStreamer::Start(const ListPtr& list) {
  parties_[list->exchange->request().party].under_way.push_back(list);
  const auto begin = std::exchange(list->begin, nullptr);
  begin([this, list](Source source) {
    if (list->over) return;
    list->source = std::move(source);
    list->exchange->BeginStream(list->content_type);
    WriteSlices(list);
  });
}

void ListAnswerStreamer::WriteSlices(const ListPtr& list) {
  work_.Add(list->exchange->request().party,
            [this, list](const base::TimeSlice& turn) { return WriteSome(list, turn); });
}

// One part of the source may be larger than a piece.
std::string ListAnswerStreamer::List::TakePiece() {
  std::string piece = text.substr(at, kPiece);
  at += piece.size();
  if (Left() < kPiece) text.erase(0, std::exchange(at, 0));
  return piece;
}

bool ListAnswerStreamer::WriteSome(const ListPtr& list, const base::TimeSlice& turn) {
  if (list->over) return false;
  while (list->more && list->Left() < kPiece && !turn.IsOver()) list->more = list->source(list->text);
  list->exchange->Write(list->TakePiece());
  if (list->over) return false;  // the client has gone
  if (!list->more && list->Left() == 0) {
    list->exchange->EndStream();
    End(list);
    return false;
  }
  if (list->exchange->Unsent() <= kAhead) return true;
  list->exchange->WhenSent([this, list] {
    if (!list->over) WriteSlices(list);
  });
  return false;
}

void ListAnswerStreamer::End(const ListPtr& list) {
  if (std::exchange(list->over, true)) return;
  list->source = nullptr;
  list->begin = nullptr;
  const auto of = parties_.find(list->exchange->request().party);
  Lists& lists = of->second;
  // `list` may refer to an element that is erased here.
  const ListPtr kept = list;  // NOLINT(performance-unnecessary-copy-initialization): see above
  std::erase(lists.waiting, kept);
  std::erase(lists.under_way, kept);
  if (lists.under_way.size() < kOfParty && !lists.waiting.empty()) {
    const auto next = std::move(lists.waiting.front());
    lists.waiting.pop_front();
    return Start(next);
  }
  if (lists.under_way.empty() && lists.waiting.empty()) parties_.erase(of);
}

}  // namespace gpuman::daemon
