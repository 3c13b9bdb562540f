// What the routes of jobs have in common.
#pragma once

#include <string>
#include <type_traits>

#include "daemon/jobs/module.h"
#include "daemon/queue/requests.h"

namespace gpuman::daemon {

// The job that a reference names, if it exists and the caller has this right to it. A reference to an array
// gives its first task, if the right is only to look.
base::Result<const jobs::Job*> JobFor(JobsModule& jobs, const http::ExchangePtr& exchange,
                                      const std::string& reference, api::Right right);

// Finds the jobs that dependencies name, and notes for the caller where several have a name.
queue::ReferenceLookup NotingLookup(JobsModule& jobs, const http::ExchangePtr& exchange);

// Calls `act` with each request of a route on one job, and with the job.
template <typename Body, typename Answer, typename Act>
void ServeEach(JobsModule& jobs, http::Router& router, const api::JobRoute<Body, Answer>& route, Act act) {
  AddRoute(router, jobs.core(), route.method, route.path, route.right, route.wait,
           [&jobs, route, act](const http::ExchangePtr& exchange, const http::PathParameters& parameters) {
             const auto named = JobFor(jobs, exchange, parameters.at("ref"), route.right);
             if (!named) return SendError(exchange, named.error());
             ReadCall(jobs.core(), route, exchange, parameters,
                      [&jobs, act, id = (*named)->id](const Call<Body, Answer>& call) {
                        const auto job = StillThere(jobs.core(), id);
                        if (!job) return call.Refuse(job.error());
                        act(call, **job);
                      });
           });
}

// Serves a route on one job. `act` is a handler that gets the job.
template <typename Body, typename Answer>
void ServeJob(JobsModule& jobs, http::Router& router, const api::JobRoute<Body, Answer>& route,
              base::Result<> (*act)(JobsModule&,
                                    const Call<std::type_identity_t<Body>, std::type_identity_t<Answer>>&,
                                    const jobs::Job&)) {
  ServeEach(jobs, router, route, [&jobs, act](const Call<Body, Answer>& call, const jobs::Job& job) {
    call.AnswerBy(act, jobs, call, job);
  });
}

// The same where the answer is a job: `act` passes it on when it is known. `in_full` as for AnswerWithJob.
template <typename Body>
using ActOnJob = base::Result<> (*)(JobsModule&, const Call<Body, api::JobView>&, const jobs::Job&,
                                    const JobResultCallback& done);
template <typename Body>
void ServeJob(JobsModule& jobs, http::Router& router, const api::JobRoute<Body, api::JobView>& route,
              ActOnJob<std::type_identity_t<Body>> act, bool in_full = false) {
  ServeEach(jobs, router, route,
            [&jobs, act, in_full](const Call<Body, api::JobView>& call, const jobs::Job& job) {
              call.AnswerBy(act, jobs, call, job, AnswerWithJob(jobs.queue(), call, in_full));
            });
}

// Checks, as at the submission, what the update gave the job: that the device profile exists, and that gpuman
// may send to the receivers of notifications.
base::Result<> CheckChanged(JobsModule& jobs, const api::JobUpdate& update, const jobs::Job& changed);

// A new job in the answer to its submission. `viewed`: as the queue sees it, which costs a view of it.
api::SubmittedJob SubmittedOf(JobsModule& jobs, base::JobId id, bool viewed);

using RedoCall = Call<api::RedoRequest, api::SubmissionAnswer>;
// A new job that asks for the same as the old one, but not for the GPUs that the old one had.
jobs::Job AskingAsMuch(const jobs::Job& old);
// The same for a job that never was in the queue, with changes, started at once.
base::Result<> RunAgain(JobsModule& jobs, const RedoCall& call, const jobs::Job& old);

}  // namespace gpuman::daemon
