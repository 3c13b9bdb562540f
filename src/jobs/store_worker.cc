#include "jobs/store_worker.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuman::jobs {
namespace {

constexpr std::size_t kTogether = 500;  // new jobs in one commit: about 10 ms

// The size of a job's row without the counted texts, with its share of the indexes and of the empty part of
// the last page; a generous estimate.
constexpr std::size_t kRowBytes = 2500;
// Each page is written to the log, and from there to its place.
constexpr std::size_t kTimesWritten = 2;

void Append(Batch& to, const Batch& from) {
  to.put.insert(to.put.end(), from.put.begin(), from.put.end());
  to.erase.insert(to.erase.end(), from.erase.begin(), from.erase.end());
  to.events.insert(to.events.end(), from.events.begin(), from.events.end());
  to.runs.insert(to.runs.end(), from.runs.begin(), from.runs.end());
  if (from.first_run_kept) to.first_run_kept = from.first_run_kept;
  to.outbox.insert(to.outbox.end(), from.outbox.begin(), from.outbox.end());
  to.outbox_erase.insert(to.outbox_erase.end(), from.outbox_erase.begin(), from.outbox_erase.end());
  for (const auto& [key, value] : from.settings) to.settings[key] = value;
  if (from.first_event_kept) to.first_event_kept = from.first_event_kept;
}

base::Bytes ToWrite(const std::vector<Job>& jobs, std::size_t from) {
  std::size_t bytes = 0;
  for (std::size_t i = from; i < jobs.size(); ++i) {
    bytes += kRowBytes + jobs[i].tag.size() + jobs[i].directory->size();
    for (const auto& word : jobs[i].command) bytes += word.size();
  }
  return {kTimesWritten * bytes};
}

// If a commit fills the disk, its data can neither be moved to its place nor deleted.
base::Result<> HasRoomFor(const Store& store, const std::vector<Job>& jobs, std::size_t from) {
  const auto room = store.RoomOnDisk();
  const auto needed = ToWrite(jobs, from);
  if (!room || needed <= *room) return {};
  return base::Fail(base::ErrorCode::kExhausted,
                    fmt::format("the disk of the state directory is full: {} are free, and {} new jobs may "
                                "take {}",
                                base::FormatBytes(*room), jobs.size() - from, base::FormatBytes(needed)),
                    "free space there, or submit fewer jobs at once");
}

}  // namespace

StoreWorker::StoreWorker(std::unique_ptr<Store> store, base::Executor to_loop, std::size_t reads_of_user)
    : store_(std::move(store)),
      answers_(to_loop),
      user_reads_([this](std::function<void()> act) { Read([act = std::move(act)](Store&) { act(); }); },
                  std::move(to_loop), {.waiting_of_user = reads_of_user}),
      thread_([this] { Run(); }) {}

StoreWorker::~StoreWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void StoreWorker::Submit(Batch batch, Done done) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(batch), std::move(done), ++last_number_});
  }
  wake_.notify_one();
}

void StoreWorker::Read(std::function<void(Store&)> read) {
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back(std::move(read));
  }
  wake_.notify_one();
}

bool StoreWorker::ReadForUser(base::Party user, UserRead read) {
  return user_reads_.AddIfRoom(user, {.work = [this, read = std::move(read.read)] { read(*store_); },
                                      .then = std::move(read.then),
                                      .is_cancelled = std::move(read.is_cancelled)});
}

void StoreWorker::Run() {
  ::pthread_setname_np(::pthread_self(), "store");
  for (;;) {
    std::deque<Item> items;
    std::function<void(Store&)> read;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock,
                 [this] { return stopping_ || !queue_.empty() || !reads_.empty() || !arrivals_.empty(); });
      if (queue_.empty() && arrivals_.empty() && stopping_) return;
      items.swap(queue_);
      if (!reads_.empty()) {
        read = std::move(reads_.front());
        reads_.pop_front();
      }
    }
    TakeArrivals(items);
    if (!items.empty()) WriteAll(items);
    if (read) read(*store_);
    if (!arrivals_.empty()) WriteSome();
  }
}

void StoreWorker::TakeArrivals(std::deque<Item>& items) {
  std::deque<Item> others;
  for (Item& item : items)
    if (item.batch.add && item.batch.add->size() > kTogether)
      arrivals_.push_back({std::move(item)});
    else
      others.push_back(std::move(item));
  items = std::move(others);
}

// Writes a part of the first arrival; then the other arrivals have their turn.
void StoreWorker::WriteSome() {
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  const bool over = arrival.removal ? TakeBackPart(arrival) : WritePart(arrival);
  if (!over) return arrivals_.push_back(std::move(arrival));
  if (arrival.item.done)
    answers_.Add([done = std::move(arrival.item.done), outcome = arrival.outcome] { done(outcome); });
}

bool StoreWorker::WritePart(Arrival& arrival) {
  const auto& jobs = *arrival.item.batch.add;
  const auto key = KeyOfArrival(arrival.Jobs());
  Batch part;
  part.add = arrival.item.batch.add;
  part.add_from = arrival.next;
  part.add_to = std::min(arrival.next + kTogether, jobs.size());
  if (part.add_from == 0) part.settings[key] = "1";
  if (part.add_to == jobs.size()) part.settings[key] = std::nullopt;
  arrival.outcome = HasRoomFor(*store_, jobs, part.add_from);
  if (arrival.outcome) arrival.outcome = store_->Write(part);
  if (arrival.outcome) {
    arrival.next = part.add_to;
    return arrival.next == jobs.size();
  }
  if (arrival.next == 0) return true;
  arrival.removal.emplace(arrival.Jobs(), jobs[arrival.next].id);
  return false;
}

// If something cannot be taken back now, the next Load takes it back.
bool StoreWorker::TakeBackPart(Arrival& arrival) {
  auto step = arrival.removal->Next();
  Batch batch;
  batch.erase = std::move(step.erase);
  if (step.unset) batch.settings[*step.unset] = std::nullopt;
  arrival.removal->Take(store_->Write(batch));
  return arrival.removal->IsOver();
}

void StoreWorker::WriteAll(std::deque<Item>& items) {
  // Within one batch jobs are put before they are erased, so a put after an erase would need a batch of its
  // own. Ids are never used again, so that does not happen. Many new jobs also have a batch of their own.
  while (!items.empty()) {
    std::deque<Item> some;
    do {
      some.push_back(std::move(items.front()));
      items.pop_front();
    } while (!items.empty() && !some.back().batch.add && !items.front().batch.add);
    WriteTogether(some);
  }
}

void StoreWorker::WriteTogether(std::deque<Item>& items) {
  if (items.size() == 1) return Answer(items.front(), WriteOne(items.front()));
  Batch together;
  base::Result<> outcome;
  for (const Item& item : items) {
    if (outcome) outcome = IsKnownToWork(item);
    Append(together, item.batch);
  }
  if (outcome) outcome = store_->Write(together);
  for (Item& item : items) Answer(item, outcome ? outcome : WriteOne(item));
}

base::Result<> StoreWorker::WriteOne(const Item& item) {
  auto outcome = IsKnownToWork(item);
  if (outcome) outcome = store_->Write(item.batch);
  if (outcome) return outcome;
  const std::lock_guard lock(mutex_);
  for (const Job& job : item.batch.put) refused_[job.id] = {UINT64_MAX, outcome.error()};
  return outcome;
}

base::Result<> StoreWorker::IsKnownToWork(const Item& item) {
  const std::lock_guard lock(mutex_);
  for (const Job& job : item.batch.put) {
    const auto it = refused_.find(job.id);
    if (it == refused_.end()) continue;
    if (item.number < it->second.before) return base::Fail(it->second.error);
    refused_.erase(it);
  }
  return {};
}

void StoreWorker::Answer(Item& item, base::Result<> outcome) {
  std::vector<JobId> refused;
  if (!outcome)
    for (const Job& job : item.batch.put) refused.push_back(job.id);
  if (!item.done && refused.empty()) return;
  answers_.Add([this, alive = std::weak_ptr(alive_), done = std::move(item.done),
                outcome = std::move(outcome), refused = std::move(refused)] {
    if (!refused.empty() && !alive.expired()) {
      const std::lock_guard lock(mutex_);
      for (const JobId id : refused)
        if (const auto it = refused_.find(id); it != refused_.end()) it->second.before = last_number_ + 1;
    }
    if (done) done(outcome);
  });
}

}  // namespace gpuman::jobs
