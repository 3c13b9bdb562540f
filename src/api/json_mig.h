// Internal to api/json.cc: the fields of mig_types.h.
#pragma once

#include "api/json_types.h"
#include "api/mig_types.h"
#include "base/json.h"

namespace gpuman::api {

constexpr bool IsRequest(const MigRequest*) { return true; }

template <typename V, base::json::Of<MigProcessView> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("name", x.name);
  v("gpuman", x.gpuman);
  v("job", x.job);
  v("tag", x.tag);
}

template <typename V, base::json::Of<MigProfileView> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v("id", x.id);
  v("slices", x.slices);
  v("multiprocessors", x.multiprocessors);
  v("memory", x.memory);
  v("most", x.most);
  v("decoders", x.decoders);
  v("jpegs", x.jpegs);
  v("ofas", x.ofas);
  v("size", x.size);
  v("starts", x.starts);
}

template <typename V, base::json::Of<MigComputeView> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("slices", x.slices);
  v("uuid", x.uuid);
  v("number", x.number);
}

template <typename V, base::json::Of<MigInstanceView> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("profile", x.profile);
  v("start", x.start);
  v("size", x.size);
  v("memory", x.memory);
  v("compute", x.compute);
  v("processes", x.processes);
}

template <typename V, base::json::Of<MigGpu> T>
void Fields(V& v, T& x) {
  v.Required("index", x.index);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v("supported", x.supported);
  v("enabled", x.enabled);
  v("pending", x.pending);
  v("error", x.error);
  v("instances", x.instances);
  v("layout", x.layout);
  v("wanted", x.wanted);
  v("wanted_enabled", x.wanted_enabled);
  v("drifted", x.drifted);
  v("profiles", x.profiles);
}

template <typename V, base::json::Of<MigReport> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
}

template <typename V, base::json::Of<MigConfigSpec> T>
void Fields(V& v, T& x) {
  v.Changed("gpus", x.gpus, {});
  v.Changed("filters", x.filters, {});
  v.Changed("enabled", x.enabled, true);
  v.Required("instances", x.instances);
  v.Changed("keep_mode", x.keep_mode, false);
}

template <typename V, base::json::Of<MigRequest> T>
void Fields(V& v, T& x) {
  v.Required("devices", x.devices);
  v.Changed("forget", x.forget, false);
}

template <typename V, base::json::Of<MigStepView> T>
void Fields(V& v, T& x) {
  v.Required("kind", x.kind);
  v("text", x.text);
  v("profile", x.profile);
  v("start", x.start);
}

template <typename V, base::json::Of<MigGpuChange> T>
void Fields(V& v, T& x) {
  v.Required("index", x.index);
  v.Required("uuid", x.uuid);
  v("steps", x.steps);
  v("kept", x.kept);
  v("in_the_way", x.in_the_way);
  v("done", x.done);
  v("needs_reset", x.needs_reset);
  v("error", x.error);
}

template <typename V, base::json::Of<MigChanges> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
}

}  // namespace gpuman::api
