// A classic script at the beginning of a single file. It reports that the end of the file is missing.
addEventListener("DOMContentLoaded", () => {
  if (document.getElementById("end")) return;
  const message = Object.assign(document.createElement("p"), { className: "vd-notice", role: "alert" });
  message.textContent = "This file is incomplete. Copy or download it again.";
  document.body.prepend(message);
});
