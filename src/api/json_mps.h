// Internal to api/json.cc: the fields of mps_types.h.
#pragma once

#include "api/json_fields.h"
#include "api/mps_types.h"

namespace gpuman::api {

constexpr bool IsRequest(const MpsOrder*) { return true; }
constexpr bool IsRequest(const MpsStop*) { return true; }
constexpr bool IsRequest(const MpsTermination*) { return true; }

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsProcess>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("name", x.name);
  v("job", x.job);
  v("tag", x.tag);
  v("threads", x.threads);
  v("memory", x.memory);
  v("limits_known", x.limits_known);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsServer>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("threads", x.threads);
  v("memory", x.memory);
  v("clients", x.clients);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsGpu>
void Fields(V& v, T& x) {
  v("index", x.index);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v.Required("state", x.state);
  v("problem", x.problem);
  v("pid", x.pid);
  v("since", x.since);
  v("pipe_directory", x.pipe_directory);
  v("threads", x.threads);
  v("memory", x.memory);
  v("servers", x.servers);
  v("outside", x.outside);
  v("waiting", x.waiting);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsReport>
void Fields(V& v, T& x) {
  v("program", x.program);
  v.Required("gpus", x.gpus);
  v("notes", x.notes);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsOrder>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v.Option("threads", x.threads);
  v.Option("memory", x.memory);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsStop>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v("force", x.force);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, MpsTermination>
void Fields(V& v, T& x) { v.Required("pid", x.pid); }

}  // namespace gpuman::api
