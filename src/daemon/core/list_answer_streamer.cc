#include "daemon/core/list_answer_streamer.h"

#include <algorithm>
#include <utility>

namespace gpuman::daemon {

void ListAnswerStreamer::Answer(const http::ExchangePtr& exchange, std::string content_type, Begin begin) {
  const auto list = std::make_shared<List>(List{exchange, std::move(content_type), std::move(begin)});
  User& user = users_[exchange->request().peer.uid];
  user.waiting.push_back(list);
  exchange->OnGone([this, weak = std::weak_ptr(list)] {
    if (const auto gone = weak.lock()) End(gone);
  });
  if (list->over || user.under_way.size() >= kOfUser) return;
  user.waiting.pop_back();
  Start(list);
}

void ListAnswerStreamer::Start(const ListPtr& list) {
  users_[list->exchange->request().peer.uid].under_way.push_back(list);
  const auto begin = std::exchange(list->begin, nullptr);
  begin([this, list](Source source) {
    if (list->over) return;
    list->source = std::move(source);
    list->exchange->BeginStream(list->content_type);
    WriteSlices(list);
  });
}

void ListAnswerStreamer::WriteSlices(const ListPtr& list) {
  work_.Add(list->exchange->request().peer.uid,
            [this, list](const base::TimeSlice& turn) { return WriteSome(list, turn); });
}

bool ListAnswerStreamer::WriteSome(const ListPtr& list, const base::TimeSlice& turn) {
  if (list->over) return false;
  std::string text;
  bool more = true;
  while (more && text.size() < kPiece && !turn.IsOver()) more = list->source(text);
  list->exchange->Write(std::move(text));
  if (list->over) return false;  // the client has gone
  if (!more) {
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
  const auto of = users_.find(list->exchange->request().peer.uid);
  User& user = of->second;
  // `list` may refer to an element that is erased here.
  const ListPtr kept = list;  // NOLINT(performance-unnecessary-copy-initialization): see above
  std::erase(user.waiting, kept);
  std::erase(user.under_way, kept);
  if (user.under_way.size() < kOfUser && !user.waiting.empty()) {
    const auto next = std::move(user.waiting.front());
    user.waiting.pop_front();
    return Start(next);
  }
  if (user.under_way.empty() && user.waiting.empty()) users_.erase(of);
}

}  // namespace gpuman::daemon
