// Hash functions that are the same on every machine and in every version. Neither is safe against an
// attacker who chooses the input. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuman::base {

// By Fowler, Noll and Vo: detects data of which only a part was written.
constexpr std::uint64_t Fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// By Steele, Lea and Flood (2014): neighbouring inputs give numbers that have nothing to do with each other.
constexpr std::uint64_t SplitMix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace gpuman::base
