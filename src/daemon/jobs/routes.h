// What the routes of jobs have in common.
#pragma once

#include <string>
#include <type_traits>

#include "daemon/jobs/module.h"
#include "daemon/queue/requests.h"

namespace gpuman::daemon {

// The job that a reference names, if it exists and the caller has this right to it. A reference to an array
// gives its first task, if the right is only to look.
base::Result<const jobs::Job*> JobFor(JobsModule& jobs, const http::Peer& peer, const std::string& reference,
                                      api::Right right);

// Serves a route on one job; `act` gets the job.
template <typename Body, typename Answer>
void ServeJob(JobsModule& jobs, http::Router& router, const api::JobRoute<Body, Answer>& route,
              void (*act)(JobsModule&, const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&,
                          const jobs::Job&)) {
  AddRoute(router, jobs.core(), route.method, route.path, route.right, route.wait,
           [&jobs, route, act](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
             const auto named = JobFor(jobs, exchange->request().peer, parameters.at("ref"), route.right);
             if (!named) return SendError(exchange, named.error());
             ReadCall(jobs.core(), route, exchange, parameters,
                      [&jobs, act, id = (*named)->id](const auto& call) {
                        const jobs::Job* const job = jobs.core().jobs().Find(id);
                        if (!job) return call.Refuse({base::ErrorCode::kNotFound, "the job is gone", {}});
                        act(jobs, call, *job);
                      });
           });
}

// Checks, as at the submission, that the device profile exists that the update gave the job.
base::Result<> CheckProfile(JobsModule& jobs, const api::JobUpdate& update, const jobs::Job& changed);

using RedoCall = Call<api::RedoRequest, api::SubmissionAnswer>;
// A new job that asks for the same as the old one, but not for the GPUs that the old one had.
jobs::Job AskingAsMuch(const jobs::Job& old);
// The same for a job that never was in the queue, with changes, started at once.
void RunAgain(JobsModule& jobs, const RedoCall& call, const jobs::Job& old);

}  // namespace gpuman::daemon
