#include "jobs/store_worker.h"

#include <pthread.h>

#include <utility>
#include <vector>

namespace gpuman::jobs {
namespace {

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

}  // namespace

StoreWorker::StoreWorker(std::unique_ptr<Store> store, Post post)
    : store_(std::move(store)), post_(std::move(post)), thread_([this] { Run(); }) {}

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

void StoreWorker::Run() {
  ::pthread_setname_np(::pthread_self(), "store");
  for (;;) {
    std::deque<Item> items;
    std::deque<std::function<void(Store&)>> reads;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty() || !reads_.empty(); });
      if (queue_.empty() && stopping_) return;
      items.swap(queue_);
      reads.swap(reads_);
    }
    if (!items.empty()) WriteAll(items);
    for (const auto& read : reads) read(*store_);
  }
}

void StoreWorker::WriteAll(std::deque<Item>& items) {
  // Within one batch jobs are put before they are erased, so a put after an erase needs a batch of its own;
  // ids are never used again, so that does not happen. Many new jobs have a batch of their own as well.
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
  post_([this, alive = std::weak_ptr(alive_), done = std::move(item.done), outcome = std::move(outcome),
         refused = std::move(refused)] {
    if (!refused.empty() && !alive.expired()) {
      const std::lock_guard lock(mutex_);
      for (const JobId id : refused)
        if (const auto it = refused_.find(id); it != refused_.end()) it->second.before = last_number_ + 1;
    }
    if (done) done(outcome);
  });
}

}  // namespace gpuman::jobs
