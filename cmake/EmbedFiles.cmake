# Writes OUTPUT, a source that defines gpuman::web::EmbeddedFiles() with FILES (separated by "|"), each compressed by gzip.
# cmake -DOUTPUT=… -DFILES=… -P EmbedFiles.cmake
string(REPLACE "|" ";" files "${FILES}")
set(arrays "")
set(table "")
set(number 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  execute_process(COMMAND gzip -9 -n -c "${file}" OUTPUT_FILE "${OUTPUT}.gz" RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "gzip of ${file}: ${failed}")
  endif()
  file(READ "${OUTPUT}.gz" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "const unsigned char kFile${number}[] = {\n${hex}\n};\n")
  string(APPEND table "    {\"${name}\", {reinterpret_cast<const char*>(kFile${number}), sizeof kFile${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(REMOVE "${OUTPUT}.gz")
file(WRITE "${OUTPUT}" "#include \"web/embedded_files.h\"

namespace gpuman::web {
namespace {
${arrays}}  // namespace

const std::vector<EmbeddedFile>& EmbeddedFiles() {
  static const std::vector<EmbeddedFile> files{
${table}  };
  return files;
}

}  // namespace gpuman::web
")
