#include "base/turns.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace gpuman::base {
namespace {

TEST(Turns, WhoSendsManyWaitsBehindTheOthers) {
  Turns<std::function<void()>> turns;
  std::string done;
  const auto enter = [&](Party who, char name) { turns.Enter(who, [&done, name] { done += name; }); };
  for (const char name : {'a', 'b', 'c', 'd'}) enter(1, name);
  enter(2, 'X');
  enter(3, 'Y');
  turns.Next()();
  enter(2, 'Z');
  while (!turns.empty()) turns.Next()();
  EXPECT_EQ(done, "aXYbZcd");
}

TEST(Turns, WorkThatBringsWorkWaitsItsTurn) {
  Turns<std::function<void()>> turns;
  std::string done;
  turns.Enter(1, [&] {
    done += 'a';
    turns.Enter(1, [&] { done += 'b'; });
  });
  turns.Enter(2, [&] { done += 'X'; });
  while (!turns.empty()) turns.Next()();
  EXPECT_EQ(done, "aXb");
}

}  // namespace
}  // namespace gpuman::base
