#include "web/answers.h"

#include "api/json.h"

namespace gpuman::web {

const Headers& CommonHeaders() {
  static const Headers headers{
      {"Cache-Control", "no-store"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
  };
  return headers;
}

std::string BodyOf(const Refusal& refusal) {
  const api::Json body{{"error",
                        {{"message", refusal.message},
                         {"hint", refusal.hint.empty() ? api::Json() : api::Json(refusal.hint)}}}};
  return api::Dump(body) + "\n";
}

}  // namespace gpuman::web
