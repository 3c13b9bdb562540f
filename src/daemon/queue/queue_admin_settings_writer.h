// The only writer of the queue's administrators' settings. Each change is decided on the settings as all
// earlier changes left them, is written to the store, and only then takes effect. The next change is decided
// after that. So no change is lost, the checks of a change still hold when it takes effect, and a change that
// could not be written has no effect.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "base/result.h"
#include "daemon/queue/queue_admin_settings.h"

namespace gpuman::daemon {

class QueueAdminSettingsWriter {
 public:
  struct Change {
    jobs::SettingRows entries;                         // to be written
    std::function<void(QueueAdminSettings&)> apply{};  // called when they are written
  };
  using Decide = std::function<base::Result<Change>(const QueueAdminSettings&)>;
  using Done = std::function<void(base::Result<>)>;
  using Write = std::function<void(jobs::SettingRows, Done)>;

  // `changed` is called after each change of the settings. `write` calls its Done on the loop, not within the
  // call, or never when the daemon ends.
  QueueAdminSettingsWriter(QueueAdminSettings& admin, Write write, std::function<void()> changed)
      : admin_settings_(admin), write_(std::move(write)), changed_(std::move(changed)) {}

  // Calls `done` with the error of `decide` or of the write, or when the change has taken effect.
  void Do(Decide decide, Done done) {
    orders_.push_back({std::move(decide), std::move(done)});
    if (!busy_) Next();
  }

 private:
  struct Order {
    Decide decide;
    Done done;
  };

  void Next() {
    busy_ = true;
    while (!orders_.empty()) {
      auto change = orders_.front().decide(admin_settings_);
      if (change) {
        auto entries = std::move(change->entries);
        return write_(std::move(entries), [this, apply = std::move(change->apply)](base::Result<> written) {
          if (written) {
            apply(admin_settings_);
            changed_();
          }
          Answer(std::move(written));
          Next();
        });
      }
      Answer(base::Fail(std::move(change.error())));
    }
    busy_ = false;
  }
  void Answer(base::Result<> outcome) {
    const auto done = std::move(orders_.front().done);
    orders_.pop_front();
    done(std::move(outcome));
  }

  QueueAdminSettings& admin_settings_;
  Write write_;
  std::function<void()> changed_;
  std::deque<Order> orders_;  // the first is being decided or written
  bool busy_ = false;
};

}  // namespace gpuman::daemon
