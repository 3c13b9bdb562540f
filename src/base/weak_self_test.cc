#include "base/weak_self.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace gpuman::base {
namespace {

class Counter {
 public:
  auto Add() {
    return self_.Bind([](Counter& me, int more, const std::string& why) {
      me.sum += more;
      me.last = why;
    });
  }
  int sum = 0;
  std::string last;

 private:
  WeakSelf<Counter> self_{this};
};

TEST(WeakSelf, ACallbackActsOnTheObjectWhileItExists) {
  Counter counter;
  const std::function<void(int, const std::string&)> add = counter.Add();
  add(2, "first");
  add(3, "second");
  EXPECT_EQ(counter.sum, 5);
  EXPECT_EQ(counter.last, "second");
}

TEST(WeakSelf, ACallbackDoesNothingOnceTheObjectIsGone) {
  std::optional<Counter> counter(std::in_place);
  const auto add = counter->Add();
  add(1, "");
  counter.reset();
  add(1, "");  // the address sanitizer would see it
  counter.emplace();
  add(1, "");
  EXPECT_EQ(counter->sum, 0) << "another object at the same place is another one";
}

TEST(WeakSelf, AnObjectMayEndWithinItsOwnCallback) {
  struct Session {
    WeakSelf<Session> self{this};
  };
  auto session = std::make_unique<Session>();
  const auto end = session->self.Bind([&session](Session&) { session.reset(); });
  end();
  EXPECT_EQ(session, nullptr);
  end();
}

}  // namespace
}  // namespace gpuman::base
