// Long work of many requests on one event loop, in slices: one slice at a time, users in turn, so that
// whoever asks for something short waits for one slice at most, and no user's work keeps another user's back.
//
// A slice does its work until its Turn is over and says whether there is more. Between two slices the loop
// does what came meanwhile. Work of one user is done in turns as well.
//
// Not thread-safe: lives on the event loop. The destructor drops what is left.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::base {

// How long a slice may take.
class Turn {
 public:
  Turn(const Clock& clock, MonoTime end) : clock_(clock), end_(end) {}
  bool IsOver() const { return clock_.Mono() >= end_; }

 private:
  const Clock& clock_;
  MonoTime end_;
};

class SlicedWork {
 public:
  using Post = std::function<void(std::function<void()>)>;
  // True: there is more to do. It is not called again after it has returned false.
  using Slice = std::function<bool(const Turn&)>;
  static constexpr std::chrono::microseconds kTurn{2'000};

  // `post`: calls what it gets later, on the loop, after what waits there already. `clock` must outlive this
  // object.
  SlicedWork(Post post, const Clock& clock) : post_(std::move(post)), clock_(clock) {}
  ~SlicedWork() { *self_ = nullptr; }
  SlicedWork(const SlicedWork&) = delete;
  SlicedWork& operator=(const SlicedWork&) = delete;

  // The first slice is done later, never within this call.
  void Add(uid_t user, Slice slice);

 private:
  void PostNext();
  void DoOne();

  Post post_;
  const Clock& clock_;
  std::map<uid_t, std::deque<Slice>> work_;  // no list is empty
  uid_t last_ = 0;                           // whose turn was the last one
  bool posted_ = false;
  // What is posted and outlives this object finds it gone.
  std::shared_ptr<SlicedWork*> self_ = std::make_shared<SlicedWork*>(this);
};

}  // namespace gpuman::base
