// Internal to api/json.cc: the fields of share_types.h.
#pragma once

#include "api/share_types.h"
#include "base/json.h"

namespace gpuman::api {

template <typename V, base::json::Of<ShareSettings> T>
void Fields(V& v, T& x) {
  v.Required("policy", x.policy);
  v("quantum_min", x.quantum_min);
  v("quantum_max", x.quantum_max);
  v("overhead", x.overhead);
  v("idle", x.idle);
  v("interactive_wait", x.interactive_wait);
  v("pause", x.pause);
  v("compute", x.compute);
  v("memory", x.memory);
  v("managed_turns", x.managed_turns);
  v("compute_quantum", x.compute_quantum);
  v("capacity", x.capacity);
  v("gpu_capacity", x.gpu_capacity);
  v("on_no_yield", x.on_no_yield);
  v("yield_limit", x.yield_limit);
  v("step", x.step);
  v("retry", x.retry);
  v("on_no_answer", x.on_no_answer);
  v("answer_limit", x.answer_limit);
  v("unchanged", x.unchanged);
}

template <typename V, base::json::Of<ShareUpdate> T>
void Fields(V& v, T& x) {
  v.Option("policy", x.policy);
  v.Option("quantum_min", x.quantum_min);
  v.Option("quantum_max", x.quantum_max);
  v.Option("overhead", x.overhead);
  v.Option("idle", x.idle);
  v.Option("interactive_wait", x.interactive_wait);
  v.Option("pause", x.pause);
  v.Option("compute", x.compute);
  v.Option("memory", x.memory);
  v.Option("managed_turns", x.managed_turns);
  v.Option("compute_quantum", x.compute_quantum);
  v.Clearable("capacity", x.capacity, x.clear_capacity);
  v.Option("on_no_yield", x.on_no_yield);
  v.Option("yield_limit", x.yield_limit);
  v.Option("step", x.step);
  v.Option("retry", x.retry);
  v.Option("on_no_answer", x.on_no_answer);
  v.Option("answer_limit", x.answer_limit);
  v.Option("unchanged", x.unchanged);
}

template <typename V, base::json::Of<ShareMemory> T>
void Fields(V& v, T& x) {
  v("resident", x.resident);
  v("away", x.away);
  v("pinned", x.pinned);
  v("managed", x.managed);
  v("wanted", x.wanted);
}

template <typename V, base::json::Of<ShareResting> T>
void Fields(V& v, T& x) {
  v.Required("units", x.units);
  v("at_rest", x.at_rest);
  v("steps", x.steps);
  v("milliseconds", x.milliseconds);
}

template <typename V, base::json::Of<ShareWaits> T>
void Fields(V& v, T& x) {
  v("count", x.count);
  v("median", x.median);
  v("longest", x.longest);
}

template <typename V, base::json::Of<ShareJob> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("tag", x.tag);
  v("in_run_set", x.in_run_set);
  v("gate", x.gate);
  v("activity", x.activity);
  v("suspended", x.suspended);
  v("waits_for", x.waits_for);
  v("detail", x.detail);
  v("resting", x.resting);
  v("waiting", x.waiting);
  v("had_turn", x.had_turn);
  v("weight", x.weight);
  v("priority", x.priority);
  v("interactive", x.interactive);
  v("compute", x.compute);
  v("latency", x.latency);
  v("longest_unit", x.longest_unit);
  v("compute_part", x.compute_part);
  v("compute_had", x.compute_had);
  v("waits", x.waits);
  v("memory", x.memory);
}

template <typename V, base::json::Of<ShareGpu> T>
void Fields(V& v, T& x) {
  v("index", x.index);
  v("number", x.number);
  v.Required("uuid", x.uuid);
  v("capacity", x.capacity);
  v("demand", x.demand);
  v("contended", x.contended);
  v("exclusive", x.exclusive);
  v("by_share", x.by_share);
  v("handing_over", x.handing_over);
  v("quantum", x.quantum);
  v("quantum_left", x.quantum_left);
  v("moved_out", x.moved_out);
  v("moved_in", x.moved_in);
  v("copied_out", x.copied_out);
  v("copied_in", x.copied_in);
  v("hand_overs", x.hand_overs);
  v("moving", x.moving);
  v("moving_share", x.moving_share);
  v("jobs", x.jobs);
}

template <typename V, base::json::Of<ShareView> T>
void Fields(V& v, T& x) {
  v.Required("settings", x.settings);
  v.Required("gpus", x.gpus);
}

}  // namespace gpuman::api
