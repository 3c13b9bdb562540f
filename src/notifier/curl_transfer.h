// One attempt to deliver one message with libcurl.
//
// A transfer uses only http, https, smtp and smtps. It checks certificates, follows no redirects, and ignores
// ~/.netrc and the environment's proxies. It connects to no address that notify/address.h refuses, and does
// not use a connection twice. Not thread-safe; does not block.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "notify/address.h"
#include "notify/wire.h"

namespace gpuman::notifier {

class CurlTransfer {
 public:
  // kInvalidArgument: libcurl does not accept the order.
  static base::Result<std::unique_ptr<CurlTransfer>> Begin(notify::DeliveryRequest order);
  ~CurlTransfer();
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  // The private pointer of the handle (CURLOPT_PRIVATE) is this object.
  CURL* handle() const { return handle_; }
  notify::DeliveryReport ReportOf(CURLcode outcome) const;

 private:
  explicit CurlTransfer(notify::DeliveryRequest order) : order_(std::move(order)) {}
  bool SetUp();
  bool SetUp(const notify::HttpPost& post);
  bool SetUp(const notify::OutgoingMail& mail);
  bool AddHeader(const std::string& line);
  static curl_socket_t Open(void* self, curlsocktype purpose, curl_sockaddr* address);
  static std::size_t TakeAnswer(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t GiveMail(char* data, std::size_t size, std::size_t count, void* self);

  notify::DeliveryRequest order_;
  CURL* handle_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* receivers_ = nullptr;
  std::vector<notify::IpNetwork> allowed_;
  std::string refused_;  // why this transfer did not connect to an address
  bool opened_ = false;  // a connection to another address was opened
  std::size_t given_ = 0, taken_ = 0;
  char problem_[CURL_ERROR_SIZE] = {};
};

}  // namespace gpuman::notifier
