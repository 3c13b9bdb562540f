// Writes to the store on a thread of its own, so that a slow disk never holds up the event loop.
//
// Batches are written in the order in which they were submitted. Batches that wait together share one commit;
// if that fails they are tried one by one, so that one bad batch does not fail others. A batch that adds many
// jobs is written in several commits, all of it or nothing (arrival.h). Other batches are written between
// them, so that no user waits for another user's many jobs. If a batch is refused, batches for its jobs that
// were submitted before its `done` was called are refused as well: their caller did not know of the refusal,
// and a job's later record would lose what belongs to the earlier one. `done` runs through `to_loop`, that is
// on the event loop, after the batch is on the disk or was refused. Submit may be called from any thread. The
// destructor writes what is queued and drops the answers.
//
// Reads for users take turns: one of each user that has some, however many one of them has.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/executor.h"
#include "base/fair_task_executor.h"
#include "base/post_queue.h"
#include "base/result.h"
#include "jobs/arrival.h"
#include "jobs/store.h"

namespace gpuman::jobs {

class StoreWorker {
 public:
  using Done = std::function<void(base::Result<>)>;

  // `reads_of_user`: so many reads of one user may wait.
  StoreWorker(std::unique_ptr<Store> store, base::Executor to_loop, std::size_t reads_of_user = 256);
  StoreWorker(const StoreWorker&) = delete;
  StoreWorker& operator=(const StoreWorker&) = delete;
  ~StoreWorker();

  void Submit(Batch batch, Done done);
  // Runs `read` on the worker, after all batches that were submitted before, except those that add many jobs;
  // not at all if the worker is being ended. A long read should read a part and call Read again: writes go
  // first.
  void Read(std::function<void(Store&)> read);
  // A read for a user's request: as FairTaskExecutor::Task.
  struct UserRead {
    std::function<void(Store&)> read;      // on the worker
    std::function<void()> then;            // on the loop, once `read` is done
    std::function<bool()> is_cancelled{};  // on the loop, before `read`
  };
  // On the loop. Does the read when it is the user's turn, as Read does. False: as many reads of the user
  // wait as may, and this one is dropped.
  [[nodiscard]] bool ReadForUser(base::Party user, UserRead read);

 private:
  struct Item {
    Batch batch;
    Done done;
    std::uint64_t number = 0;
  };
  // Many jobs; the ones before `next` are written or, after a refusal, are being taken back.
  struct Arrival {
    Item item;
    std::size_t next = 0;
    base::Result<> outcome{};
    std::optional<ArrivalRemover> removal{};
    JobIdRange Jobs() const { return {item.batch.add->front().id, item.batch.add->back().id}; }
  };
  struct RefusedBatches {
    std::uint64_t before = UINT64_MAX;  // batches with smaller numbers are refused
    base::Error error;
  };
  base::Result<> WriteOne(const Item& item);
  base::Result<> IsKnownToWork(const Item& item);
  void Answer(Item& item, base::Result<> outcome);
  void Run();
  void TakeArrivals(std::deque<Item>& items);
  void WriteSome();
  bool WritePart(Arrival& arrival);
  bool TakeBackPart(Arrival& arrival);
  void WriteAll(std::deque<Item>& items);
  void WriteTogether(std::deque<Item>& items);

  std::unique_ptr<Store> store_;
  base::PostQueue answers_;  // one commit may have very many answers
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  std::deque<std::function<void(Store&)>> reads_;  // of users at most one at a time
  std::deque<Arrival> arrivals_;                   // used by the worker only
  std::uint64_t last_number_ = 0;
  std::map<JobId, RefusedBatches> refused_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for answers after the end of this object
  bool stopping_ = false;
  base::FairTaskExecutor user_reads_;  // used by the loop only
  std::thread thread_;                 // last: it uses everything above
};

}  // namespace gpuman::jobs
