// Starts the OpenAPI page. "Try it out" sends the CSRF token of the sign-in, as every write by cookie must.
(() => {
  "use strict";
  const cookie = (name) => {
    const found = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
    return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
  };
  window.SwaggerUIBundle({
    url: document.getElementById("swagger-ui").dataset.schema,
    dom_id: "#swagger-ui",
    layout: "BaseLayout",
    deepLinking: true,
    validatorUrl: null, // nothing is sent to anyone else
    presets: [window.SwaggerUIBundle.presets.apis],
    requestInterceptor: (request) => {
      request.headers["X-CSRF-Token"] = cookie("mh_csrf");
      return request;
    },
  });
})();
