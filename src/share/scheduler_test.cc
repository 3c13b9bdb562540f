#include "share/world.h"
namespace gpuman::share {
TEST(Debug, Log) {
  World world({}, {{"gpu", base::GiB(16)}}, 55e9);
  int n = 0;
  world.SetLog([&](const Action& a) {
    if (auto* x = std::get_if<action::Grant>(&a); x && x->in_bring) return;
    if (++n > 600) exit(1);
    printf("%.3f ", std::chrono::duration<double>(world.now().time_since_epoch()).count() - 3600);
    if (auto* x = std::get_if<action::Open>(&a)) printf("open %ld\n", x->tenant.value);
    if (auto* x = std::get_if<action::Close>(&a)) printf("close %ld\n", x->tenant.value);
    if (auto* x = std::get_if<action::Evict>(&a)) printf("evict %ld %lu\n", x->tenant.value, x->bytes.count >> 20);
    if (auto* x = std::get_if<action::Bring>(&a)) printf("bring %ld\n", x->tenant.value);
    if (auto* x = std::get_if<action::StopBring>(&a)) printf("stop %ld\n", x->tenant.value);
    if (auto* x = std::get_if<action::Grant>(&a)) printf("grant %ld %lu %d\n", x->tenant.value, x->bytes.count >> 20, x->in_bring);
    if (auto* x = std::get_if<action::Deny>(&a)) printf("deny %ld\n", x->tenant.value);
    if (auto* x = std::get_if<action::Report>(&a)) printf("report %ld %s %s\n", x->tenant.value, x->kind.c_str(), x->message.c_str());
  });
  const Program program{.memory = {{"gpu", base::MiB(14700)}}, .burst = 9s, .gap = 1s, .work = 100s};
  world.Start(program);
  world.Start(program);
  world.RunToEnd(400s);
}
}
