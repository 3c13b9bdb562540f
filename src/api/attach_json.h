// The JSON of attach_types.h, and the call. As json.h and client.h say.
#pragma once

#include "api/attach_types.h"
#include "api/http.h"
#include "api/json.h"

namespace gpuman::api {

Json ToJson(const AttachRequest& value);
Json ToJson(const Attached& value);

// Attaching a process that is attached already, to a job of the same tag, gives that job. A daemon that ends before it
// has answered is being restarted: the next one is asked, until `patience` is over.
base::Result<Attached> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                              base::Millis patience);

}  // namespace gpuman::api
