// What the routes of all modules have in common: reading parameters and bodies, answering.
//
// docs/api/openapi.yaml describes the routes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/json.h"
#include "daemon/core/core.h"
#include "daemon/http/router.h"

namespace gpuman::daemon {

// A handler for those who may do this, called once the GPUs are known.
http::RouteHandler WhenReady(Core& core, Act act, std::function<void(const http::ExchangePtr&)> handle);
// Whether the daemon lives: /healthz.
void AddLiveRoute(http::Router& router);

// A query parameter that is a whole number of at least 0; absent: `otherwise`.
base::Result<std::uint64_t> NumberParameter(const http::Request& request, std::string_view name,
                                            std::uint64_t otherwise);
bool FlagParameter(const http::Request& request, std::string_view name);
// limit=, after=: so many, by id, from the next one on. No limit, or 0: all.
struct Page {
  std::size_t limit = SIZE_MAX;
  std::optional<base::JobId> after;
};
base::Result<Page> PageOf(const http::Request& request);

// The name of the user who asks.
std::string UserOf(const http::ExchangePtr& exchange);

void SendJson(const http::ExchangePtr& exchange, std::string json, unsigned status = 200);
void SendError(const http::ExchangePtr& exchange, const base::Error& error);

// A list in JSON, written one by one: `head`, the elements, then what closes it.
class JsonList {
 public:
  explicit JsonList(std::string head, std::string tail = "]}\n")
      : head_(std::move(head)), tail_(std::move(tail)) {}
  void Add(std::string& text, const std::string& element) {
    text += std::exchange(head_, ",");
    text += element;
  }
  void End(std::string& text) {
    if (head_ != ",") text += head_;
    text += tail_;
  }

 private:
  std::string head_, tail_;
};

inline constexpr std::size_t kReadAtOnce = 16u << 10;  // bytes; more is read off the loop

// Calls `then` with the body, or answers with what is wrong about it. An empty one is read as `empty`.
template <typename T>
void WithBody(Core& core, const http::ExchangePtr& exchange, std::function<void(const T&)> then,
              std::string empty = {}) {
  const auto& body = exchange->request().body;
  const auto read = [exchange, empty = std::move(empty)]() -> base::Result<T> {
    const auto& text = exchange->request().body;
    return api::Decode<T>(text.empty() ? empty : text);
  };
  const auto take = [exchange, then = std::move(then)](const base::Result<T>& value) {
    if (!value) return SendError(exchange, value.error());
    then(*value);
  };
  if (body.size() <= kReadAtOnce) return take(read());
  const auto value = std::make_shared<std::optional<base::Result<T>>>();  // the worker's, then the loop's
  core.Aside(exchange->request().peer.uid,
             {[read, value] { *value = read(); }, [take, value] { take(**value); }});
}

}  // namespace gpuman::daemon
