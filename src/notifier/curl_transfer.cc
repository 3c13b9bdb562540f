#include "notifier/curl_transfer.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <ctime>

#include "notifier/signature.h"

namespace gpuman::notifier {
namespace {

constexpr std::size_t kMaxOfAnAnswer = 64 * 1024;  // the notifier ignores the answer's body

template <typename T>
bool Set(CURL* handle, CURLoption option, T value) {
  return ::curl_easy_setopt(handle, option, value) == CURLE_OK;
}

std::uint32_t UsualPort(notify::Tls tls) {
  switch (tls) {
    case notify::Tls::kStart:
      return 587;
    case notify::Tls::kWhole:
      return 465;
    case notify::Tls::kNone:
      return 25;
  }
  return 25;
}

// The addresses of the machine's interfaces, as they are now.
std::vector<notify::Address> OwnAddresses() {
  std::vector<notify::Address> own;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return own;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr) continue;
    if (const auto address = notify::AddressOf(one->ifa_addr)) own.push_back(*address);
  }
  ::freeifaddrs(all);
  return own;
}

}  // namespace

base::Result<std::unique_ptr<CurlTransfer>> CurlTransfer::Begin(notify::DeliveryRequest order) {
  std::unique_ptr<CurlTransfer> transfer(new CurlTransfer(std::move(order)));
  transfer->handle_ = ::curl_easy_init();
  if (!transfer->handle_)
    return base::Fail(base::ErrorCode::kExhausted, "libcurl has no room for a transfer");
  if (!transfer->SetUp())
    return base::Fail(base::ErrorCode::kInvalidArgument, "libcurl does not take what is to be sent");
  return transfer;
}

CurlTransfer::~CurlTransfer() {
  ::curl_easy_cleanup(handle_);
  ::curl_slist_free_all(headers_);
  ::curl_slist_free_all(receivers_);
}

bool CurlTransfer::SetUp() {
  const auto timeout = static_cast<long>(order_.timeout.count());
  return Set(handle_, CURLOPT_PRIVATE, this) && Set(handle_, CURLOPT_NOSIGNAL, 1L) &&
         Set(handle_, CURLOPT_ERRORBUFFER, problem_) && Set(handle_, CURLOPT_TIMEOUT_MS, timeout) &&
         Set(handle_, CURLOPT_CONNECTTIMEOUT_MS, timeout) && Set(handle_, CURLOPT_FOLLOWLOCATION, 0L) &&
         Set(handle_, CURLOPT_FORBID_REUSE, 1L) && Set(handle_, CURLOPT_SSL_VERIFYPEER, 1L) &&
         Set(handle_, CURLOPT_SSL_VERIFYHOST, 2L) && Set(handle_, CURLOPT_NOPROXY, "") &&
         (order_.ca_file.empty() || Set(handle_, CURLOPT_CAINFO, order_.ca_file.c_str())) &&
         Set(handle_, CURLOPT_WRITEFUNCTION, &CurlTransfer::TakeAnswer) &&
         Set(handle_, CURLOPT_WRITEDATA, this) &&
         std::visit([this](const auto& what) { return SetUp(what); }, order_.what);
}

bool CurlTransfer::AddHeader(const std::string& line) {
  curl_slist* const longer = ::curl_slist_append(headers_, line.c_str());
  if (longer) headers_ = longer;
  return longer != nullptr;
}

bool CurlTransfer::SetUp(const notify::HttpPost& post) {
  for (const auto& text : post.allow)
    if (auto network = notify::ParseNetwork(text)) allowed_.push_back(*network);
  bool fine = AddHeader("Content-Type: application/json") && AddHeader("Expect:") &&
              AddHeader("Gpuman-Delivery: " + post.delivery) && AddHeader("Gpuman-Event: " + post.event);
  if (!post.secret.empty()) {
    const auto signature = SignatureOf(post.secret, static_cast<std::int64_t>(std::time(nullptr)), post.body);
    fine = fine && !signature.empty() && AddHeader("Gpuman-Signature: " + signature);
  }
  // With a proxy, the proxy decides which addresses it may reach. Without a proxy, Open checks each address.
  if (post.proxy.empty())
    fine = fine && Set(handle_, CURLOPT_OPENSOCKETFUNCTION, &CurlTransfer::Open) &&
           Set(handle_, CURLOPT_OPENSOCKETDATA, this);
  return fine && Set(handle_, CURLOPT_PROTOCOLS_STR, "http,https") &&
         Set(handle_, CURLOPT_URL, post.url.c_str()) && Set(handle_, CURLOPT_PROXY, post.proxy.c_str()) &&
         Set(handle_, CURLOPT_HTTPHEADER, headers_) &&
         Set(handle_, CURLOPT_USERAGENT, order_.agent.c_str()) &&
         Set(handle_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1)) &&
         Set(handle_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size())) &&
         Set(handle_, CURLOPT_POSTFIELDS, post.body.c_str());
}

bool CurlTransfer::SetUp(const notify::OutgoingMail& mail) {
  receivers_ = ::curl_slist_append(nullptr, fmt::format("<{}>", mail.to).c_str());
  const bool whole = mail.tls == notify::Tls::kWhole;
  const std::string host = mail.server.find(':') == std::string::npos ? mail.server : "[" + mail.server + "]";
  const std::string url = fmt::format("{}://{}:{}", whole ? "smtps" : "smtp", host,
                                      mail.port != 0 ? mail.port : UsualPort(mail.tls));
  const long tls = mail.tls == notify::Tls::kNone ? CURLUSESSL_NONE : CURLUSESSL_ALL;
  return receivers_ && Set(handle_, CURLOPT_PROTOCOLS_STR, "smtp,smtps") &&
         Set(handle_, CURLOPT_URL, url.c_str()) && Set(handle_, CURLOPT_PROXY, "") &&
         Set(handle_, CURLOPT_USE_SSL, tls) &&
         Set(handle_, CURLOPT_MAIL_FROM, fmt::format("<{}>", mail.from).c_str()) &&
         Set(handle_, CURLOPT_MAIL_RCPT, receivers_) &&
         (mail.user.empty() || (Set(handle_, CURLOPT_USERNAME, mail.user.c_str()) &&
                                Set(handle_, CURLOPT_PASSWORD, mail.password.c_str()))) &&
         Set(handle_, CURLOPT_UPLOAD, 1L) && Set(handle_, CURLOPT_READFUNCTION, &CurlTransfer::GiveMail) &&
         Set(handle_, CURLOPT_READDATA, this);
}

curl_socket_t CurlTransfer::Open(void* self, curlsocktype, curl_sockaddr* address) {
  auto& me = *static_cast<CurlTransfer*>(self);
  const auto where = notify::AddressOf(&address->addr);
  const auto refusal = where ? notify::RefusalOf(*where, me.allowed_, OwnAddresses())
                             : std::optional<std::string>("it is no address of the internet");
  if (refusal) {
    me.refused_ = *refusal;
    return CURL_SOCKET_BAD;
  }
  me.opened_ = true;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::size_t CurlTransfer::TakeAnswer(char*, std::size_t size, std::size_t count, void* self) {
  auto& me = *static_cast<CurlTransfer*>(self);
  me.taken_ += size * count;
  return me.taken_ > kMaxOfAnAnswer ? 0 : size * count;
}

std::size_t CurlTransfer::GiveMail(char* data, std::size_t size, std::size_t count, void* self) {
  auto& me = *static_cast<CurlTransfer*>(self);
  const std::string& text = std::get<notify::OutgoingMail>(me.order_.what).text;
  const std::size_t some = std::min(size * count, text.size() - me.given_);
  text.copy(data, some, me.given_);
  me.given_ += some;
  return some;
}

notify::DeliveryReport CurlTransfer::ReportOf(CURLcode outcome) const {
  notify::DeliveryReport report;
  report.number = order_.number;
  auto& attempt = report.attempt;
  long status = 0;
  ::curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  attempt.status = static_cast<int>(status);
  const bool post = std::holds_alternative<notify::HttpPost>(order_.what);
  // If an answer is too long or was cut off, its status is known already.
  if (outcome == CURLE_OK || (post && status >= 200 && outcome != CURLE_PEER_FAILED_VERIFICATION)) {
    curl_off_t seconds = 0;
    ::curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &seconds);
    constexpr curl_off_t kMax = 366LL * 86'400;
    if (seconds > 0) attempt.retry_after = base::Millis(1000 * std::min(seconds, kMax));
    return report;
  }
  attempt.problem = problem_[0] != '\0' ? problem_ : ::curl_easy_strerror(outcome);
  if (!opened_ && !refused_.empty()) {
    attempt.problem = refused_;
    attempt.hopeless = true;
  }
  if (outcome == CURLE_URL_MALFORMAT || outcome == CURLE_UNSUPPORTED_PROTOCOL) attempt.hopeless = true;
  // The login of the administrator's account failed; the message itself may be correct, so another attempt
  // may succeed.
  if (outcome == CURLE_LOGIN_DENIED) attempt.status = 0;
  return report;
}

}  // namespace gpuman::notifier
