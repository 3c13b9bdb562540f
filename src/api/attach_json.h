// The JSON of attach_types.h, and the call. As json.h and client.h say.
#pragma once

#include "api/attach_types.h"
#include "api/http.h"
#include "api/json.h"

namespace gpuman::api {

Json ToJson(const AttachRequest& value);
Json ToJson(const Attached& value);

// Attaching a process that is attached already, to a job of the same tag, gives that job. So a daemon that
// ends before it has answered, or was killed before it was asked, is no refusal: the next one is asked, which
// may have the job already. `patience`: with all of them. Where no daemon was, none is waited for.
// kUnavailable and kTimeout mean, as in client.h, that none could be asked.
base::Result<Attached> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                              base::Millis patience);

}  // namespace gpuman::api
